//! How much the store holds, what can go, and whether it is what it says.

use super::session::gate;
use super::{Store, USE_IS_NOTED_AFTER};
use crate::engine::digest::{Digest, parse_hash};
use crate::engine::fs_error::{self, IoContext};
use crate::engine::stop;
use crate::error::Result;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What takes room in the store, in bytes of disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Sources and products, by digest.
    pub blobs: u64,
    /// Unpacked sandbox roots and toolchains.
    pub trees: u64,
    /// Results of actions and steps, without their files.
    pub results: u64,
    /// What running builds have not finished.
    pub unfinished: u64,
    /// What was found damaged.
    pub damaged: u64,
}

impl Sizes {
    /// What is kept for other builds.
    pub fn kept(&self) -> u64 {
        self.blobs + self.trees + self.results
    }
}

/// What a collection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collect {
    /// What no build has used for so long.
    Unused(Duration),
    /// What was used longest ago, until so many bytes of disk are left. What was used within a day
    /// stays.
    DownTo(u64),
    /// Everything, with what ecosystems' clients keep for themselves.
    Everything,
}

/// What a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many files and trees.
    pub entries: u64,
    /// How many bytes of disk.
    pub bytes: u64,
    /// How many stayed that would have gone, because a build that runs may use them.
    pub in_use: u64,
}

/// Something that can go.
pub(super) struct Entry {
    path: PathBuf,
    /// When it was used last, as far as that is noted.
    used: SystemTime,
}

impl Store {
    /// What takes room.
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

    /// Removes what `what` says, but nothing that a running build may have found here: a use is
    /// noted once a day, so that is all that was used within a day before the oldest of those
    /// builds began, or since. No build begins meanwhile.
    pub fn collect(&self, what: Collect) -> Result<Collected> {
        let _gate = gate(self.root())?;
        let (now, oldest) = (SystemTime::now(), self.inner.session.oldest_other(self.root())?);
        let noted_before = |time: SystemTime| {
            time.checked_sub(USE_IS_NOTED_AFTER).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let protected = match what {
            Collect::DownTo(_) => Some(noted_before(oldest.unwrap_or(now))),
            Collect::Unused(_) | Collect::Everything => oldest.map(noted_before),
        };
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
                collected.in_use += u64::from(oldest.is_some());
            } else if goes && let Some(bytes) = self.discard(&entry)? {
                left = left.saturating_sub(bytes);
                collected.bytes += bytes;
                collected.entries += 1;
            }
        }
        self.discard_spent(what, oldest.is_none(), &mut collected)?;
        Ok(collected)
    }

    /// Once a day, removes what was used longest ago, until the store takes at most `limit` bytes;
    /// none if it is not yet time.
    pub fn collect_daily(&self, limit: u64) -> Result<Option<Collected>> {
        let note = self.root().join("collected");
        let last = fs::metadata(&note).and_then(|about| about.modified());
        let is_early = last.is_ok_and(|last| {
            SystemTime::now().duration_since(last).unwrap_or_default() < USE_IS_NOTED_AFTER
        });
        if is_early {
            return Ok(None);
        }
        fs::write(&note, "").at("write", &note)?;
        self.collect(Collect::DownTo(limit)).map(Some)
    }

    /// Removes an entry, and gives how many bytes of disk that freed; none if it is gone, or
    /// somebody has used it just now.
    pub(super) fn discard(&self, entry: &Entry) -> Result<Option<u64>> {
        let away = self.inner.session.fresh("collected");
        match fs::rename(&entry.path, &away) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.at("remove", &entry.path)?,
        }
        // Whoever finds an entry notes the use before he looks whether it is still there.
        if used(&away) != entry.used && !entry.path.exists() {
            fs::rename(&away, &entry.path).at("write", &entry.path)?;
            return Ok(None);
        }
        let bytes = disk_usage(&away)?;
        fs_error::remove(&away)?;
        Ok(Some(bytes))
    }

    /// Removes what serves nobody any more: damaged entries, and where no build runs, locks. With
    /// everything, what clients keep, too. A collection for the limit takes no locks: the build
    /// that it follows may hold some.
    fn discard_spent(
        &self,
        what: Collect,
        is_alone: bool,
        collected: &mut Collected,
    ) -> Result<()> {
        let mut spent = children(&self.root().join("damaged"))?;
        if is_alone && !matches!(what, Collect::DownTo(_)) {
            spent.extend(children(&self.root().join("locks"))?);
            // Those that are held right now stay: a build that waits for them must not get a second
            // file of that name.
            spent.retain(|path| {
                !path.ends_with("locks/in-use") && !path.ends_with("locks/sessions")
            });
        }
        if is_alone && what == Collect::Everything {
            spent.extend(children(&self.root().join("clients"))?);
        }
        for path in spent {
            collected.bytes += disk_usage(&path)?;
            collected.entries += 1;
            fs_error::remove(&path)?;
        }
        Ok(())
    }

    /// Checks every stored byte, moves what is damaged away, and says what that was. `doing` hears
    /// which entry is looked at.
    pub fn verify(&self, doing: &dyn Fn(&str)) -> Result<Vec<String>> {
        let mut damaged = Vec::new();
        for path in self.blobs()? {
            stop::check()?;
            let name = name(&path);
            doing(&name);
            if parse_hash(&name) != Some(*Digest::of_file(&path)?.hash()) {
                self.take_away(&path, &mut damaged)?;
            }
        }
        for tree in children(&self.root().join("trees"))? {
            stop::check()?;
            doing(&name(&tree));
            if !self.tree_is_sound(&tree) {
                self.take_away(&tree, &mut damaged)?;
            }
        }
        Ok(damaged)
    }

    fn take_away(&self, path: &Path, damaged: &mut Vec<String>) -> Result<()> {
        let away = self.root().join("damaged").join(name(path));
        fs_error::remove(&away)?;
        fs::rename(path, &away).at("move away", path)?;
        damaged.push(path.strip_prefix(self.root()).unwrap_or(path).display().to_string());
        Ok(())
    }

    /// Everything that can go.
    pub(super) fn entries(&self) -> Result<Vec<Entry>> {
        let root = self.root();
        let mut paths = self.blobs()?;
        paths.extend(children(&root.join("ac"))?);
        for kind in children(&root.join("memo"))? {
            paths.extend(children(&kind)?);
        }
        paths.extend(children(&root.join("trees"))?);
        Ok(paths.into_iter().map(|path| Entry { used: used(&path), path }).collect())
    }

    fn blobs(&self) -> Result<Vec<PathBuf>> {
        let mut blobs = Vec::new();
        for directory in children(&self.root().join("cas/sha256"))? {
            blobs.extend(children(&directory)?);
        }
        Ok(blobs)
    }
}

fn children(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).at("read", directory)?;
    let mut paths =
        entries.map(|entry| Ok(entry.at("read", directory)?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// When an entry was used last: a tree's stamp says it for the tree, and a tree without one is of
/// no use.
fn used(path: &Path) -> SystemTime {
    let stamp = path.join("stamp");
    let about =
        if path.is_dir() { fs::symlink_metadata(stamp) } else { fs::symlink_metadata(path) };
    about.and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What a file or a directory with all that is in it takes on the disk. What vanishes meanwhile
/// takes nothing.
fn disk_usage(path: &Path) -> Result<u64> {
    let metadata: Metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
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
