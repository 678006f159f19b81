//! The size of the store, the removal of old entries, and the check of all of them.

use super::blobs::is_unreadable;
use super::session::gate;
use super::{Store, USE_INTERVAL};
use crate::engine::digest::{Digest, parse_hash};
use crate::engine::fs_error::{self, IoContext};
use crate::engine::stop;
use crate::error::Result;
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The sizes of the parts of the store, in bytes of disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Sources and products, by digest.
    pub blobs: u64,
    /// Unpacked sandbox roots and toolchains.
    pub trees: u64,
    /// Results of actions and steps, without their files.
    pub results: u64,
    /// Unfinished files of running builds.
    pub unfinished: u64,
    /// Damaged entries.
    pub damaged: u64,
}

impl Sizes {
    /// The size of everything that is kept for other builds.
    pub fn kept(&self) -> u64 {
        self.blobs + self.trees + self.results
    }
}

/// The entries that a collection removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collect {
    /// Those that no build has used for this long.
    Unused(Duration),
    /// The least recently used ones, until this many bytes of disk are left.
    DownTo(u64),
    /// All of them, and the caches of ecosystems' clients, except those that last
    /// ([`Store::state`]).
    Everything,
}

/// The result of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The number of files and trees that it removed.
    pub entries: u64,
    /// Their bytes of disk.
    pub bytes: u64,
    /// The number of entries that stayed only because a running build may use them.
    pub in_use: u64,
}

/// An entry that can be removed.
pub(super) struct Entry {
    path: PathBuf,
    /// The last use, as the file records it.
    recorded: SystemTime,
    /// The last use, as a collection counts it.
    used: SystemTime,
}

impl Entry {
    /// The entry at `path`. A clock that was ahead has recorded a time to come. A recent one is
    /// that of an entry in use; one more than a day ahead would otherwise stay recent for years,
    /// and counts as old.
    fn at(path: PathBuf, now: SystemTime) -> Self {
        let recorded = used(&path);
        let used = match recorded.duration_since(now) {
            Ok(ahead) if ahead > USE_INTERVAL => SystemTime::UNIX_EPOCH,
            Ok(_) => now,
            Err(_) => recorded,
        };
        Entry { path, recorded, used }
    }
}

impl Store {
    /// The sizes of the parts of the store.
    pub fn sizes(&self) -> Result<Sizes> {
        let size = |name: &str| disk_usage(&self.root().join(name));
        Ok(Sizes {
            blobs: size("cas")?,
            trees: size("trees")?,
            results: size("ac")? + size("memo")?,
            unfinished: size("tmp")?,
            damaged: size("damaged")?,
        })
    }

    /// Removes the entries that `what` selects, except those that another running build may have
    /// found. A use is recorded once a day, so these are the entries that were used after the
    /// oldest of those builds started, or within a day before. No build can start meanwhile.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn collect(&self, what: Collect) -> Result<Collected> {
        self.collect_beside(None, what)
    }

    /// Reduces the store to `limit` bytes at the end of a build, which may use its entries further:
    /// those that it may have found stay too.
    pub(super) fn collect_after_build(&self, limit: u64) -> Result<Collected> {
        self.collect_beside(Some(self.inner.session.start()), Collect::DownTo(limit))
    }

    /// Removes entries as [`Store::collect`] does. `own` is the start of the build of this store if
    /// it still uses its entries.
    fn collect_beside(&self, own: Option<SystemTime>, what: Collect) -> Result<Collected> {
        let _gate = gate(self.root(), || ())?;
        let (now, other) = (SystemTime::now(), self.inner.session.oldest_other(self.root())?);
        let oldest = own.into_iter().chain(other).min();
        let protected =
            oldest.map(|start| start.checked_sub(USE_INTERVAL).unwrap_or(SystemTime::UNIX_EPOCH));
        let mut entries = self.entries()?;
        entries.sort_by(|one, other| (one.used, &one.path).cmp(&(other.used, &other.path)));
        let mut left = if let Collect::DownTo(_) = what { self.sizes()?.kept() } else { 0 };
        let mut collected = Collected::default();
        for entry in entries {
            stop::check()?;
            let goes = match what {
                Collect::Unused(unused) => {
                    now.duration_since(entry.used).unwrap_or_default() >= unused
                }
                Collect::DownTo(limit) => left > limit,
                Collect::Everything => true,
            };
            if goes && protected.is_some_and(|protected| entry.used >= protected) {
                collected.in_use += 1;
            } else if goes && let Some(bytes) = self.discard(&entry)? {
                left = left.saturating_sub(bytes);
                collected.bytes += bytes;
                collected.entries += 1;
            }
        }
        self.discard_spent(what, oldest.is_none(), &mut collected)?;
        Ok(collected)
    }

    /// Reduces the store to `limit` bytes at the end of a build, at most once a day; `None` if that
    /// was done within the last day. Entries that were used within a day stay.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn collect_daily(&self, limit: u64) -> Result<Option<Collected>> {
        let note = self.root().join("collected");
        let last = fs::metadata(&note).and_then(|about| about.modified());
        // A note from the future was made by a clock that was ahead, and does not count.
        let is_early = last.is_ok_and(|last| {
            SystemTime::now().duration_since(last).is_ok_and(|age| age < USE_INTERVAL)
        });
        if is_early {
            return Ok(None);
        }
        fs::write(&note, "").at("write", &note)?;
        self.collect_after_build(limit).map(Some)
    }

    /// Removes an entry and returns its bytes of disk; `None` if it is gone or was just used.
    pub(super) fn discard(&self, entry: &Entry) -> Result<Option<u64>> {
        let away = self.inner.session.fresh("collected");
        match fs::rename(&entry.path, &away) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.at("remove", &entry.path)?,
        }
        // A build may have found it since it was listed.
        if used(&away) != entry.recorded && !entry.path.exists() {
            fs::rename(&away, &entry.path).at("write", &entry.path)?;
            return Ok(None);
        }
        let bytes = disk_usage(&away)?;
        fs_error::remove(&away)?;
        Ok(Some(bytes))
    }

    /// Removes damaged entries, if no build runs locks, and for [`Collect::Everything`] the caches
    /// of clients.
    fn discard_spent(
        &self,
        what: Collect,
        is_alone: bool,
        collected: &mut Collected,
    ) -> Result<()> {
        let mut spent = children(&self.root().join("damaged"))?;
        if is_alone {
            spent.extend(children(&self.root().join("locks"))?);
            // This process holds these two. A build that waits for one of them must not get a
            // second file of the same name.
            spent.retain(|path| {
                !path.ends_with("locks/in-use") && !path.ends_with("locks/sessions")
            });
        }
        if is_alone && what == Collect::Everything {
            spent.extend(self.states_that_do_not_last()?);
        }
        for path in spent {
            collected.bytes += disk_usage(&path)?;
            collected.entries += 1;
            fs_error::remove(&path)?;
        }
        Ok(())
    }

    /// Checks every stored byte, removes damaged entries, and returns their paths. `doing` gets the
    /// name of each entry.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn verify(&self, doing: &dyn Fn(&str)) -> Result<Vec<String>> {
        let mut damaged = Vec::new();
        for path in self.blobs()? {
            stop::check()?;
            let name = name(&path);
            doing(&name);
            let found = match File::open(&path).and_then(|file| Digest::of_whole(&file)) {
                Ok(found) => Some(*found.hash()),
                Err(error) if is_unreadable(&error) => None,
                // Another command has removed it meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error).at("read", &path),
            };
            if found.is_none() || parse_hash(&name) != found {
                self.remove_damaged(&path, &mut damaged)?;
            }
        }
        for tree in children(&self.root().join("trees"))? {
            stop::check()?;
            doing(&name(&tree));
            if !self.tree_is_sound(&tree) {
                self.remove_damaged(&tree, &mut damaged)?;
            }
        }
        Ok(damaged)
    }

    fn remove_damaged(&self, path: &Path, damaged: &mut Vec<String>) -> Result<()> {
        // A build that runs finds all of it or nothing.
        let away = self.inner.session.fresh("damaged");
        fs::rename(path, &away).at("remove", path)?;
        fs_error::remove(&away)?;
        damaged.push(path.strip_prefix(self.root()).unwrap_or(path).display().to_string());
        Ok(())
    }

    /// Every entry that can be removed.
    pub(super) fn entries(&self) -> Result<Vec<Entry>> {
        let (root, now) = (self.root(), SystemTime::now());
        let mut paths = self.blobs()?;
        paths.extend(children(&root.join("ac"))?);
        for kind in children(&root.join("memo"))? {
            paths.extend(children(&kind)?);
        }
        paths.extend(children(&root.join("trees"))?);
        Ok(paths.into_iter().map(|path| Entry::at(path, now)).collect())
    }

    fn blobs(&self) -> Result<Vec<PathBuf>> {
        let mut blobs = Vec::new();
        for directory in children(&self.root().join("cas/sha256"))? {
            blobs.extend(children(&directory)?);
        }
        Ok(blobs)
    }
}

pub(super) fn children(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).at("read", directory)?;
    let mut paths =
        entries.map(|entry| Ok(entry.at("read", directory)?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The last recorded use of an entry. That of a tree is the time of its stamp; a tree without a
/// stamp is useless and counts as never used.
fn used(path: &Path) -> SystemTime {
    let stamp = path.join("stamp");
    let about =
        if path.is_dir() { fs::symlink_metadata(stamp) } else { fs::symlink_metadata(path) };
    about.and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The bytes of disk of a file or a directory tree. A file that vanishes meanwhile counts as 0.
fn disk_usage(path: &Path) -> Result<u64> {
    let metadata: Metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        other => other.at("read", path)?,
    };
    let mut size = metadata.blocks() * 512;
    if metadata.is_dir() {
        for child in children(path).unwrap_or_default() {
            size += disk_usage(&child)?;
        }
    }
    Ok(size)
}
