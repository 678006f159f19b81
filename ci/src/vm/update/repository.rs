//! A TUF repository with one release, made with the editor of the crate `tough`.

use super::NAME;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use jiff::{SignedDuration, Timestamp};
use osbuild::error::{Context, Result};
use osbuild_release::{Architecture, Channel, Document, File, Sha256, target};
use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tough::TargetName;
use tough::editor::RepositoryEditor;
use tough::editor::signed::SignedRole;
use tough::key_source::{KeySource, LocalKeySource};
use tough::schema::{Hashes, KeyHolder, RoleKeys, RoleType, Root, Target};

const CANNOT: &str = "cannot make a TUF repository";

/// A repository in a folder, with a key of its own.
pub struct Repository {
    folder: PathBuf,
    keys: TempDir,
    root: Vec<u8>,
}

impl Repository {
    /// An empty one, in a folder that is made.
    pub fn new(folder: &Path) -> Result<Self> {
        let cannot = || CANNOT.to_owned();
        for name in ["metadata", "targets"] {
            fs::create_dir_all(folder.join(name)).or_build(cannot)?;
        }
        let keys = tempfile::tempdir().or_build(cannot)?;
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).or_build(cannot)?;
        fs::write(keys.path().join("key"), key).or_build(cannot)?;
        let mut repository = Repository { folder: folder.to_owned(), keys, root: Vec::new() };
        repository.root = block_on(repository.make_root())?;
        fs::write(folder.join("metadata/1.root.json"), &repository.root).or_build(cannot)?;
        Ok(repository)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its root metadata.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// Writes a release. Clients see all of it at once, as TUF's timestamp is written last.
    pub fn publish(&self, version: &str, uki: &[u8], boot: &[u8]) -> Result<()> {
        let cannot = || CANNOT.to_owned();
        let file = |bytes: &[u8]| File { length: bytes.len() as u64, sha256: Sha256(hash(bytes)) };
        let files = [(target::NODE, uki), (target::BOOT, boot)];
        let listed = files.map(|(name, bytes)| (name.to_owned(), file(bytes))).into();
        let document = Document::new(NAME, version, Architecture::Amd64, 1, "2026-11-21", listed).or_build(cannot)?.encode();
        let mut targets = files.map(|(name, bytes)| (target::file(NAME, version, name), bytes)).to_vec();
        targets.push((target::document(Channel::Stable, NAME), &document));
        for (name, bytes) in &targets {
            let path = self.folder.join(format!("targets/{}.{name}", Sha256(hash(bytes))));
            let parent = path.parent().expect("a file stands in a folder");
            fs::create_dir_all(parent).and_then(|()| fs::write(&path, bytes)).or_build(cannot)?;
        }
        block_on(self.sign(&targets))
    }

    fn sources(&self) -> Vec<Box<dyn KeySource>> {
        vec![Box::new(LocalKeySource { path: self.keys.path().join("key") })]
    }

    async fn make_root(&self) -> Result<Vec<u8>> {
        let cannot = || CANNOT.to_owned();
        let sign = self.sources()[0].as_sign().await.map_err(|error| osbuild::error::Error::build(CANNOT).cause(error))?;
        let key = sign.tuf_key();
        let id = key.key_id().or_build(cannot)?;
        let holder = || RoleKeys { keyids: vec![id.clone()], threshold: NonZeroU64::MIN, _extra: HashMap::new() };
        let roles = [RoleType::Root, RoleType::Snapshot, RoleType::Targets, RoleType::Timestamp];
        let root = Root {
            spec_version: "1.0.0".to_owned(),
            consistent_snapshot: true,
            version: NonZeroU64::MIN,
            expires: tomorrow(),
            keys: [(id.clone(), key)].into(),
            roles: roles.map(|role| (role, holder())).into(),
            _extra: HashMap::new(),
        };
        let keys = KeyHolder::Root(root.clone());
        let signed = SignedRole::new(root, &keys, &self.sources(), &SystemRandom::new()).await.or_build(cannot)?;
        Ok(signed.buffer().clone())
    }

    async fn sign(&self, targets: &[(String, &[u8])]) -> Result<()> {
        let cannot = || CANNOT.to_owned();
        let (metadata, expires, version) = (self.folder.join("metadata"), tomorrow(), NonZeroU64::MIN);
        let mut editor = RepositoryEditor::new(metadata.join("1.root.json")).await.or_build(cannot)?;
        editor.targets_expires(expires).or_build(cannot)?.targets_version(version).or_build(cannot)?;
        editor.snapshot_expires(expires).snapshot_version(version).timestamp_expires(expires).timestamp_version(version);
        for (name, bytes) in targets {
            let hashes = Hashes { sha256: hash(bytes).to_vec().into(), _extra: HashMap::new() };
            let target = Target { length: bytes.len() as u64, hashes, custom: HashMap::new(), _extra: HashMap::new() };
            editor.add_target(TargetName::new(name).or_build(cannot)?, target).or_build(cannot)?;
        }
        editor.sign(&self.sources()).await.or_build(cannot)?.write(&metadata).await.or_build(cannot)
    }
}

fn tomorrow() -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(24)
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.or_build(|| CANNOT.to_owned())?.block_on(work)
}
