//! Reads the folder of a repository as a client does.

use super::memory;
use super::metadata::last_day;
use super::root::Root;
use super::wait::wait;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Kind, Result};
use crate::plan::Date;
use crate::produce::sign::ReleasePublicKey;
use osbuild_release::Newest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tough::schema::{Role, RoleType};
use tough::{ExpirationEnforcement, FilesystemTransport, IntoVec, RepositoryLoader, TargetName};
use url::Url;

pub(super) const METADATA: &str = "metadata";
/// The subfolder with the targets, named `SHA256.NAME`.
pub const TARGETS: &str = "targets";
/// The root of trust, as [`Times`] names it.
pub const ROOT: &str = "root.json";
pub(super) const TIMESTAMP: &str = "timestamp.json";

/// The folder of a repository, which need not exist.
#[derive(Clone, Debug)]
pub struct Repository {
    pub(super) folder: PathBuf,
}

/// The entry of a target in the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// SHA-256 and length.
    pub digest: Digest,
}

/// The version and expiry of metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// The version of `timestamp.json`, which each change increments.
    pub version: u64,
    /// The last day on which all four files are valid, and the name of the first to expire.
    pub until: (Date, String),
}

/// A client that has read and verified the metadata.
pub struct Client {
    folder: PathBuf,
    inner: tough::Repository,
}

impl Repository {
    /// The repository in `folder`, which need not exist.
    pub fn at(folder: &Path) -> Self {
        Repository { folder: folder.to_owned() }
    }

    /// Whether the folder has a repository.
    pub fn exists(&self) -> bool {
        self.folder.join(METADATA).join(TIMESTAMP).is_file()
    }

    /// Reads the metadata as a client that trusts `root` does, but accepts expired metadata: see
    /// [`Client::times`]. In the folder `memory` the client remembers the newest versions that it
    /// has seen, and refuses older ones.
    ///
    /// # Errors
    /// A signature, a digest or a version is wrong (`Kind::Digest`), or the memory is unusable.
    pub fn read(&self, root: &Root, memory: Option<&Path>) -> Result<Client> {
        let shown = self.folder.display();
        let folder = self.folder.canonicalize().at("read", &self.folder)?;
        let url = |name: &str| {
            let path = folder.join(name);
            Url::from_directory_path(&path)
                .map_err(|()| Error::build(format!("cannot read `{}`", path.display())))
        };
        let loader = RepositoryLoader::new(&root.bytes, url(METADATA)?, url(TARGETS)?)
            .transport(FilesystemTransport);
        let loader = loader.expiration_enforcement(ExpirationEnforcement::Unsafe);
        let loader = match memory {
            Some(folder) => {
                fs::create_dir_all(folder).at("make", folder)?;
                loader.datastore(folder)
            }
            None => loader,
        };
        let inner =
            wait(async { loader.load().await.or_build(|| format!("`{shown}` cannot be trusted")) });
        let client = Client { folder, inner: inner.map_err(untrusted)? };
        if let Some(seen) = memory {
            let newest = Newest {
                root: client.version(RoleType::Root),
                timestamp: client.version(RoleType::Timestamp),
            };
            memory::advance(newest, seen, root)?;
        }
        Ok(client)
    }
}

impl Client {
    /// The targets, by name.
    pub fn targets(&self) -> BTreeMap<String, Target> {
        let known = self.inner.all_targets().filter_map(|(name, target)| {
            let hash = target.hashes.sha256.to_vec().try_into().ok()?;
            Some((name.raw().to_owned(), Target { digest: Digest::new(hash, target.length) }))
        });
        known.collect()
    }

    /// Reads a target, and checks it against the metadata.
    ///
    /// # Errors
    /// There is no such target, or its file does not match (`Kind::Digest`).
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let cannot = || format!("`{name}` does not match the repository's metadata");
        let target = TargetName::new(name).or_build(cannot).map_err(untrusted)?;
        let read = wait(async {
            match self.inner.read_target(&target).await.or_build(cannot)? {
                Some(stream) => stream.into_vec().await.or_build(cannot),
                None => Err(Error::build(format!("the repository has no `{name}`"))),
            }
        });
        read.map_err(untrusted)
    }

    /// The path of a target's file.
    pub fn path(&self, name: &str, target: &Target) -> PathBuf {
        self.folder.join(TARGETS).join(format!("{}.{name}", target.digest))
    }

    /// The newest root of trust.
    pub fn root(&self) -> Result<Root> {
        let bytes = serde_json::to_vec(self.inner.root())
            .or_build(|| "cannot read the root of trust".to_owned())?;
        Root::parse(&bytes)
    }

    /// The release keys of all roots of trust from `first` on: the signature of an older key is
    /// still valid on targets in the newest metadata.
    ///
    /// # Errors
    /// The chain of roots from `first` to the newest is broken (`Kind::Digest`).
    pub fn release_keys(&self, first: &Root) -> Result<Vec<ReleasePublicKey>> {
        let (mut root, newest) = (first.clone(), self.root()?.version());
        let mut keys = root.release_keys();
        while root.version() < newest {
            let path = self.folder.join(METADATA).join(format!("{}.root.json", root.version() + 1));
            let bytes = fs::read(&path).at("read", &path)?;
            root = root
                .next(&bytes)
                .map_err(|error| error.cause(format!("it is `{}`", path.display())))?;
            keys.extend(root.release_keys());
        }
        Ok(keys)
    }

    /// The version and expiry of the metadata.
    pub fn times(&self) -> Result<Times> {
        let roles: [(&str, &dyn Expires); 4] = [
            (ROOT, &self.inner.root().signed),
            (TIMESTAMP, &self.inner.timestamp().signed),
            ("snapshot.json", &self.inner.snapshot().signed),
            ("targets.json", &self.inner.targets().signed),
        ];
        let first =
            roles.into_iter().map(|(name, role)| (last_day(role.second()), name.to_owned())).min();
        let until = first.ok_or_else(|| Error::build("a repository has four files of metadata"))?;
        Ok(Times { version: self.version(RoleType::Timestamp), until })
    }

    pub(super) fn version(&self, role: RoleType) -> u64 {
        match role {
            RoleType::Root => self.inner.root().signed.version.get(),
            RoleType::Timestamp => self.inner.timestamp().signed.version.get(),
            RoleType::Snapshot => self.inner.snapshot().signed.version.get(),
            _ => self.inner.targets().signed.version.get(),
        }
    }
}

/// Metadata that expires.
trait Expires {
    /// The expiry in seconds since 1970.
    fn second(&self) -> i64;
}

impl<T: Role> Expires for T {
    fn second(&self) -> i64 {
        self.expires().as_second()
    }
}

impl Target {
    pub(super) fn value(&self) -> Value {
        json!({ "length": self.digest.size(), "hashes": { "sha256": self.digest.hex() } })
    }
}

/// Marks an error as a mismatch of a digest or a signature.
fn untrusted(error: Error) -> Error {
    Error { kind: Kind::Digest, ..error }
}
