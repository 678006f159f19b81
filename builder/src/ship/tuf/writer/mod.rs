//! Writes the folder of a repository.

use super::lock::FolderLock;
use super::metadata::{Metadata, role, sign};
use super::repository::{Client, METADATA, Repository, TARGETS, TIMESTAMP, Target, Times};
use super::root::Root;
use crate::engine::digest::Digest;
use crate::engine::fs_error::{IoContext, remove, sync_directory};
use crate::error::{Error, Result, both};
use crate::plan::Date;
use crate::produce::sign::ReleaseSigner;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use tempfile::NamedTempFile;
use tough::schema::{RoleType, Snapshot, Targets, Timestamp};

/// The roles whose files have a version in their name, and the names without it.
const VERSIONED: [(RoleType, &str); 2] =
    [(RoleType::Targets, "targets.json"), (RoleType::Snapshot, "snapshot.json")];

/// The next timestamp, until all files that it needs are in place.
const NEXT_TIMESTAMP: &str = ".timestamp.json.unfinished";

/// A repository, locked against other processes until this is dropped.
pub struct Writer<'a> {
    repository: &'a Repository,
    _lock: FolderLock,
}

/// The changes of a new version of a repository's metadata.
#[derive(Default)]
pub struct Change<'a> {
    /// Targets to add or replace, by name.
    pub put: BTreeMap<String, &'a [u8]>,
    /// Names of targets to remove.
    pub dropped: BTreeSet<String>,
}

impl Deref for Writer<'_> {
    type Target = Repository;

    fn deref(&self) -> &Repository {
        self.repository
    }
}

impl Repository {
    /// Waits until no other process writes into the folder, and makes it if it is missing. Calls
    /// `waiting` once if it has to wait.
    ///
    /// # Errors
    /// The folder cannot be written, or the user wants to stop.
    pub fn writer(&self, waiting: impl FnOnce()) -> Result<Writer<'_>> {
        Ok(Writer { repository: self, _lock: FolderLock::wait(&self.folder, waiting)? })
    }

    /// Compares the roots of trust in the folder with `ours`, all roots of the keys `name`.
    ///
    /// # Errors
    /// The folder has a newer root, so the keys here may be revoked; or it has a different root of
    /// the same version, so it belongs to other keys (`Kind::Digest`).
    pub fn check_roots(&self, ours: &[Root], name: &str) -> Result<()> {
        let folder = self.folder.join(METADATA);
        // Missing roots are an error only where one is needed.
        let Some(newest) = ours.last().map(Root::version) else { return Ok(()) };
        for version in versions(&folder, "root.json")? {
            let path = folder.join(format!("{version}.root.json"));
            match ours.iter().find(|root| root.version() == version) {
                Some(root) if fs::read(&path).at("read", &path)? == root.bytes => {}
                Some(_) => {
                    return Err(Error::digest(format!(
                        "`{}` does not belong to the keys `{name}`",
                        self.folder.display()
                    ))
                    .cause(format!(
                        "`{}` is not version {version} of the root of trust of \
                                        `{name}`",
                        path.display()
                    ))
                    .hint("name its keys with `--key NAME`, or another folder with `--to DIR`"));
                }
                None => {
                    return Err(Error::usage(format!(
                        "the keys `{name}` here are older than `{}`",
                        self.folder.display()
                    ))
                    .cause(format!(
                        "the newest root of trust here has version {newest}, the one there \
                        {version}"
                    ))
                    .hint(format!("get the newest `keys/{name}`: git pull")));
                }
            }
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// Applies a change to the metadata, signs it, and adds the files. `roots` are all roots, the
    /// oldest first. Clients see the old state until the last file is written, then the new one.
    ///
    /// # Errors
    /// The existing metadata cannot be trusted; a key does not sign; a file of metadata exists with
    /// different bytes.
    pub fn publish(
        &self,
        roots: &[Root],
        key: &Arc<dyn ReleaseSigner>,
        until: Date,
        change: &Change,
    ) -> Result<Times> {
        let newest = roots.last().ok_or_else(|| Error::build("there is no root of trust"))?;
        let before = self.exists().then(|| self.latest(&roots[0])).transpose()?;
        let mut targets = before.as_ref().map(Client::targets).unwrap_or_default();
        targets.retain(|name, _| !change.dropped.contains(name));
        for (name, bytes) in &change.put {
            let digest = Digest::of(bytes);
            write_content(&self.folder.join(TARGETS).join(format!("{digest}.{name}")), bytes)?;
            targets.insert(name.clone(), Target { digest });
        }
        if !change.put.is_empty() {
            sync_directory(&self.folder.join(TARGETS))?;
        }
        let [listed, snapshot] =
            [self.next(&before, VERSIONED[0])?, self.next(&before, VERSIONED[1])?];
        let timestamp = before.as_ref().map_or(1, |client| client.version(RoleType::Timestamp) + 1);
        let (by, keys) = (&[&newest.signed][..], &[key.clone()][..]);
        // Each role names the next by version only, so that all three can be signed in one round.
        let meta = |name: &str, version: u64| json!({ "meta": { name: { "version": version } } });
        let roles = [
            role("targets", listed, until, json!({ "targets": values(&targets) })),
            role("snapshot", snapshot, until, meta("targets.json", listed)),
            role("timestamp", timestamp, until, meta("snapshot.json", snapshot)),
        ];
        let [listed, snapshot, timestamp] = roles;
        let listed = sign::<Targets>("targets.json", listed, by, keys);
        let snapshot = sign::<Snapshot>("snapshot.json", snapshot, by, keys);
        let timestamp = sign::<Timestamp>(TIMESTAMP, timestamp, by, keys);
        let ((listed, snapshot), timestamp) = both(both(listed, snapshot), timestamp)?;
        self.write(roots, &[listed, snapshot], &timestamp)?;
        self.read(&roots[0], None)?.times()
    }

    /// Reads the metadata as a client that trusts `root`. A release with a new key that was
    /// interrupted before its last file has left a timestamp of the old key, which the new root
    /// refuses: then this first writes the timestamp of that release.
    ///
    /// # Errors
    /// The metadata cannot be trusted. A timestamp of a retired key never counts again.
    pub fn latest(&self, root: &Root) -> Result<Client> {
        let folder = self.folder.join(METADATA);
        let (now, next) = (folder.join(TIMESTAMP), folder.join(NEXT_TIMESTAMP));
        let untrusted = match self.read(root, None) {
            Err(error) if next.is_file() => error,
            read => return read,
        };
        let before = fs::read(&now).at("read", &now)?;
        replace(&now, &fs::read(&next).at("read", &next)?)?;
        match self.read(root, None) {
            Ok(client) => remove(&next).map(|()| client),
            Err(_) => replace(&now, &before).and(Err(untrusted)),
        }
    }

    /// The version of a role's next file: one that no file has yet. An interrupted publish may have
    /// left files that are not in the timestamp, but that a web server or a cache may have.
    fn next(&self, before: &Option<Client>, (role, name): (RoleType, &str)) -> Result<u64> {
        let trusted = before.as_ref().map_or(0, |client| client.version(role));
        let written = versions(&self.folder.join(METADATA), name)?.last().copied().unwrap_or(0);
        Ok(trusted.max(written).saturating_add(1))
    }

    /// Writes the metadata. The timestamp is last, but on the medium before the roots: without it
    /// a power cut after a root with a new key would leave a repository that nobody can read.
    fn write(&self, roots: &[Root], versioned: &[Metadata], timestamp: &Metadata) -> Result<()> {
        let folder = self.folder.join(METADATA);
        for metadata in versioned {
            write_once(&folder.join(metadata.file_name()), &metadata.bytes)?;
        }
        let (now, next) = (folder.join(TIMESTAMP), folder.join(NEXT_TIMESTAMP));
        replace(&next, &timestamp.bytes)?;
        sync_directory(&folder)?;
        for root in roots {
            write_once(&folder.join(format!("{}.root.json", root.version())), &root.bytes)?;
        }
        sync_directory(&folder)?;
        fs::rename(&next, &now).at("write", &now)?;
        sync_directory(&folder)
    }

    /// Removes the metadata that is older than `before`, and each target that neither `before` nor
    /// `now` names: a client that has read `before` still finds all of its targets. Returns the
    /// number of removed files.
    ///
    /// # Errors
    /// A file cannot be removed. The next sweep removes the rest.
    pub fn sweep(&self, before: Option<&Client>, now: &Client) -> Result<usize> {
        let kept = || before.into_iter().chain([now]);
        let mut gone = Vec::new();
        for (role, name) in VERSIONED {
            let versions = versions(&self.folder.join(METADATA), name)?.into_iter();
            let old =
                versions.filter(|version| kept().all(|client| client.version(role) != *version));
            gone.extend(
                old.map(|version| self.folder.join(METADATA).join(format!("{version}.{name}"))),
            );
        }
        let path = |(name, target): (String, Target)| {
            now.path(&name, &target).file_name().map(ToOwned::to_owned)
        };
        let named: BTreeSet<_> =
            kept().flat_map(|client| client.targets().into_iter().filter_map(path)).collect();
        let folder = self.folder.join(TARGETS);
        for entry in fs::read_dir(&folder).at("read", &folder)? {
            let entry = entry.at("read", &folder)?;
            let is_target = entry.file_name().to_str().is_some_and(is_target);
            if is_target && !named.contains(&entry.file_name()) {
                gone.push(entry.path());
            }
        }
        gone.iter().try_for_each(|path| remove(path))?;
        Ok(gone.len())
    }
}

/// Whether a file is named like a target, `SHA256.NAME`. Other files are never removed.
fn is_target(name: &str) -> bool {
    name.split_once('.').is_some_and(|(digest, _)| {
        digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Targets in the format of the metadata.
fn values(targets: &BTreeMap<String, Target>) -> Map<String, Value> {
    targets.iter().map(|(name, target)| (name.clone(), target.value())).collect()
}

/// The versions of the files `VERSION.NAME` in a folder, the lowest first. A missing folder has
/// none.
fn versions(folder: &Path, name: &str) -> Result<BTreeSet<u64>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.at("read", folder)?,
    };
    let mut versions = BTreeSet::new();
    for entry in entries {
        let file = entry.at("read", folder)?.file_name();
        let version = file
            .to_str()
            .and_then(|file| file.strip_suffix(name)?.strip_suffix('.')?.parse::<u64>().ok());
        versions.extend(version);
    }
    Ok(versions)
}

/// Writes a file whose name has the digest of its bytes, and repairs a damaged one.
fn write_content(path: &Path, bytes: &[u8]) -> Result<()> {
    match fs::metadata(path).is_ok_and(|about| about.len() == bytes.len() as u64)
        && Digest::of_file(path)? == Digest::of(bytes)
    {
        true => Ok(()),
        false => replace(path, bytes),
    }
}

/// Writes a file whose name has a version: clients never read it again, so it must not change.
///
/// # Errors
/// It exists with different bytes (`Kind::Digest`).
fn write_once(path: &Path, bytes: &[u8]) -> Result<()> {
    match written(path, bytes)?.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(refused) if refused.error.kind() == std::io::ErrorKind::AlreadyExists => {
            match fs::read(path).at("read", path)? == bytes {
                true => Ok(()),
                false => Err(Error::digest(format!(
                    "`{}` exists with different contents",
                    path.display()
                ))
                .cause("a client that has read this version never reads it again")
                .hint("run the same command again")),
            }
        }
        Err(refused) => Err(refused.error).at("write", path),
    }
}

/// Replaces a file atomically. Its mode lets web servers read it.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    written(path, bytes)?.persist(path).map(drop).at("write", path)
}

/// Writes a file to the medium under a temporary name in the same folder.
fn written(path: &Path, bytes: &[u8]) -> Result<NamedTempFile> {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).at("make", folder)?;
    let mut file = NamedTempFile::new_in(folder).at("write", path)?;
    let mode = fs::Permissions::from_mode(0o644);
    file.write_all(bytes)
        .and_then(|()| file.as_file().set_permissions(mode))
        .and_then(|()| file.as_file().sync_all())
        .at("write", path)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
