//! A repository in a folder.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use jiff::{SignedDuration, Timestamp};
use osbuild_formats::{epoch, uki};
use osbuild_release::{Architecture, Channel, Document, File, Sha256, target};
use osbuild_rollout::Rollout;
use tough::TargetName;
use tough::editor::RepositoryEditor;
use tough::schema::{Hashes, Target};

use super::{Keys, RECIPE};

/// A UEFI program that stands for slotboot, and for the stub and the kernel of a UKI.
const PROGRAM: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";

/// A release's contents.
pub struct Release {
    pub version: u32,
    pub security_epoch: u32,
    pub node: Vec<u8>,
    pub boot: Vec<u8>,
    /// How long the metadata are valid.
    pub valid: SignedDuration,
    /// Which nodes may update, and when.
    pub rollout: Option<Rollout>,
}

impl Release {
    /// A release of this version.
    pub fn new(version: u32) -> Release {
        let node = uki(2, b"a root");
        Release {
            version,
            security_epoch: 2,
            node,
            boot: Release::boot_program(2),
            valid: SignedDuration::from_hours(24),
            rollout: None,
        }
    }

    /// The release with a rollout that begins this long from now.
    pub fn rolled_out(self, schedule: &str, begins_in: SignedDuration) -> Release {
        let begins = Timestamp::now() + begins_in;
        let rollout = Rollout::new(toml::from_str(schedule).unwrap(), "2", begins);
        Release { rollout: Some(rollout), ..self }
    }

    /// A boot program of this security epoch.
    pub fn boot_program(security_epoch: u32) -> Vec<u8> {
        let program = fs::read(PROGRAM).expect("systemd-boot-efi is installed");
        epoch::stamp(&program, security_epoch).unwrap()
    }

    fn document(&self) -> Document {
        let file = |bytes: &[u8]| File { length: bytes.len() as u64, sha256: Sha256(hash(bytes)) };
        let files = [(target::NODE, &self.node), (target::BOOT, &self.boot)];
        let files = files.map(|(name, bytes)| (name.to_owned(), file(bytes))).into();
        let mut document = Document::new(
            RECIPE,
            &self.version.to_string(),
            Architecture::Amd64,
            self.security_epoch,
            "2026-11-21",
            files,
        )
        .unwrap();
        document.rollout = self.rollout.clone();
        document
    }
}

/// A UKI of this security epoch and with this root.
pub fn uki(security_epoch: u32, root: &[u8]) -> Vec<u8> {
    let program = fs::read(PROGRAM).expect("systemd-boot-efi is installed");
    let parts = uki::Parts {
        os_release: "ID=osbuild\n",
        command_line: "quiet",
        uname: "6.12.117",
        security_epoch,
        initramfs: root,
        kernel: &program,
    };
    uki::build(&program, &parts).unwrap()
}

/// The repository.
pub struct Repository<'a> {
    folder: PathBuf,
    keys: &'a Keys,
}

impl<'a> Repository<'a> {
    /// The repository in this folder, with these keys.
    pub fn of(folder: &Path, keys: &'a Keys) -> Self {
        Repository { folder: folder.to_owned(), keys }
    }

    /// Writes a repository with this release and nothing else.
    pub fn write(&self, release: &Release) {
        let document = release.document();
        let version = document.version.clone();
        let name = |name| target::file(RECIPE, &version, name);
        let files = [
            (target::document(Channel::Stable, RECIPE), document.encode()),
            (name(target::NODE), release.node.clone()),
            (name(target::BOOT), release.boot.clone()),
        ];
        for (name, bytes) in &files {
            self.add(&format!("targets/{}.{name}", Sha256(hash(bytes))), bytes);
        }
        for (root, version) in self.keys.roots().zip(1..) {
            self.add(&format!("metadata/{version}.root.json"), root);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.sign(release, &files));
    }

    async fn sign(&self, release: &Release, files: &[(String, Vec<u8>)]) {
        let (expires, version) =
            (Timestamp::now() + release.valid, NonZeroU64::new(release.version.into()).unwrap());
        let metadata = self.folder.join("metadata");
        let mut editor = RepositoryEditor::new(
            metadata.join(format!("{}.root.json", self.keys.roots().count())),
        )
        .await
        .unwrap();
        editor.targets_expires(expires).unwrap().targets_version(version).unwrap();
        editor
            .snapshot_expires(expires)
            .snapshot_version(version)
            .timestamp_expires(expires)
            .timestamp_version(version);
        for (name, bytes) in files {
            let hashes = Hashes { sha256: hash(bytes).to_vec().into(), _extra: HashMap::new() };
            let (custom, _extra) = (HashMap::new(), HashMap::new());
            let target = Target { length: bytes.len() as u64, hashes, custom, _extra };
            editor.add_target(TargetName::new(name).unwrap(), target).unwrap();
        }
        editor.sign(&self.keys.sources()).await.unwrap().write(&metadata).await.unwrap();
    }

    fn add(&self, name: &str, bytes: &[u8]) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().unwrap()
}
