//! The folder of a repository, read as a client does.

use super::metadata::last_day;
use super::root::Root;
use super::wait::wait;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Kind, Result};
use crate::plan::Date;
use crate::produce::sign::ReleasePublicKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tough::schema::{Role, RoleType};
use tough::{ExpirationEnforcement, FilesystemTransport, IntoVec, RepositoryLoader, TargetName};
use url::Url;

pub(super) const METADATA: &str = "metadata";
/// The folder of a repository with its files, each of them named `SHA256.NAME`.
pub const TARGETS: &str = "targets";
pub(super) const TIMESTAMP: &str = "timestamp.json";

/// A folder with a repository, or for one.
#[derive(Clone, Debug)]
pub struct Repository {
    pub(super) folder: PathBuf,
}

/// What the metadata says of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// SHA-256 and length.
    pub digest: Digest,
}

/// When a client stops to believe what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// The version of `timestamp.json`, which each change makes higher.
    pub version: u64,
    /// The last day on which all four files are believed, and which of them expires first.
    pub until: (Date, String),
}

/// What a client believes after it has read the metadata.
pub struct Client {
    folder: PathBuf,
    inner: tough::Repository,
}

impl Repository {
    /// The repository in `folder`, which need not exist.
    pub fn at(folder: &Path) -> Self {
        Repository { folder: folder.to_owned() }
    }

    /// Whether something was published here.
    pub fn exists(&self) -> bool {
        self.folder.join(METADATA).join(TIMESTAMP).is_file()
    }

    /// Reads the metadata as a client does that trusts `root`. What has expired is read all the
    /// same: see [`Client::times`]. In `memory`, a folder, a client finds again what it has seen,
    /// and refuses what is older.
    ///
    /// # Errors
    /// A signature, a digest or a version is not what it must be (`Kind::Digest`).
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
        let inner = wait(async {
            loader.load().await.or_build(|| format!("`{shown}` cannot be believed"))
        });
        Ok(Client { folder, inner: inner.map_err(unbelievable)? })
    }
}

impl Client {
    /// What can be asked for, by name.
    pub fn targets(&self) -> BTreeMap<String, Target> {
        let known = self.inner.all_targets().filter_map(|(name, target)| {
            let hash = target.hashes.sha256.to_vec().try_into().ok()?;
            Some((name.raw().to_owned(), Target { digest: Digest::new(hash, target.length) }))
        });
        known.collect()
    }

    /// Reads a target, which is what the metadata says of it.
    ///
    /// # Errors
    /// There is none of this name, or its file holds other bytes (`Kind::Digest`).
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let cannot = || format!("`{name}` is not what the repository says");
        let target = TargetName::new(name).or_build(cannot).map_err(unbelievable)?;
        let read = wait(async {
            match self.inner.read_target(&target).await.or_build(cannot)? {
                Some(stream) => stream.into_vec().await.or_build(cannot),
                None => Err(Error::build(format!("the repository has no `{name}`"))),
            }
        });
        read.map_err(unbelievable)
    }

    /// Where the file of a target is.
    pub fn path(&self, name: &str, target: &Target) -> PathBuf {
        self.folder.join(TARGETS).join(format!("{}.{name}", target.digest))
    }

    /// The root of trust to which the one that was given has led.
    pub fn root(&self) -> Result<Root> {
        let bytes = serde_json::to_vec(self.inner.root())
            .or_build(|| "cannot read the root of trust".to_owned())?;
        Root::parse(&bytes)
    }

    /// The keys that sign releases, those of all roots of trust from `first` on: what an older one
    /// has signed is still good where the newest metadata speak of it.
    ///
    /// # Errors
    /// The roots in between do not lead from the one to the other (`Kind::Digest`).
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

    /// Versions and days.
    pub fn times(&self) -> Result<Times> {
        let roles: [(&str, &dyn Expires); 4] = [
            ("root.json", &self.inner.root().signed),
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

/// What stops to be believed some day.
trait Expires {
    /// The second at which it does, since 1970.
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

/// An error of the kind of a digest or a signature that does not match.
fn unbelievable(error: Error) -> Error {
    Error { kind: Kind::Digest, ..error }
}
