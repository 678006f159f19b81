//! The store: bytes by digest, results by action, and unpacked trees, shared by all builds of one
//! user.
//!
//! Layout below the store's root (`$XDG_CACHE_HOME/osbuild`):
//!
//! | path | holds |
//! |---|---|
//! | `cas/sha256/ab/<hash>` | bytes by their digest, read-only |
//! | `ac/<hash>` | the result of an action by the action's digest |
//! | `memo/<kind>/<hash>` | the digest of what a step in this process made, by its key |
//! | `trees/<hash>/{root,stamp}` | an unpacked directory, and the digest of its content |
//! | `clients/<name>/` | the cache of an ecosystem's client, which it can fetch or make again |
//! | `clients/run/networks/` | the sockets and addresses of nodes on shared networks, which stay |
//! | `locks/` | a lock for each action and tree in the making, and for each processor in use |
//! | `tmp/<session>/` | unfinished files of a build; the next build removes those of a dead one |
//! | `damaged/` | entries whose content was not that of their name |
//! | `collected` | its time of modification is that of the last reduction to the limit |
//!
//! Every entry appears whole, with a rename. It is not flushed to the disk before, so after a power
//! cut a file can be short or empty under a valid name. That is why every read checks the hash,
//! every lookup of a result checks the sizes, and the small files of `ac` and `memo` start with a
//! hash of their own. An entry that fails a check is moved away and made again. Trees are the
//! exception: checking one would mean reading all of it, so it is flushed before the rename.

mod blobs;
mod collect;
mod lock;
mod owner;
mod results;
mod session;
mod sources;
#[cfg(test)]
mod tests;
mod trees;

pub use blobs::Incoming;
pub use collect::{Collect, Collected, Sizes};
pub use lock::Lock;
pub use session::Scratch;

use super::digest::Digest;
use super::fs_error::IoContext;
use crate::error::{Error, Result};
use crate::report::Report;
use blobs::Version;
use session::Session;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The number of times that one build starts again because of damaged entries.
const MAX_HEALINGS: usize = 5;

/// The time of modification of a file records its last use, at most once in this interval.
const USE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// A handle on the store, cheap to clone and usable from several threads.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    session: Session,
    /// The versions of files that this process has hashed.
    checked: Mutex<HashMap<Digest, Version>>,
    /// The number of missing and damaged entries that this process has met.
    damaged: AtomicUsize,
}

impl Store {
    /// The store's root, from the values of `XDG_CACHE_HOME` and `HOME`. Empty and relative values
    /// count as unset.
    ///
    /// # Errors
    /// Both are unset.
    pub fn usual_root(cache_home: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
        let absolute = |path: &PathBuf| path.is_absolute();
        let cache =
            cache_home.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".cache")));
        Ok(cache
            .ok_or_else(|| {
                let error = Error::usage("neither `XDG_CACHE_HOME` nor `HOME` is set");
                // Never a world-writable folder: another user could make the store there first.
                error.hint("export HOME=\"$(getent passwd \"$(id -u)\" | cut -d: -f6)\"")
            })?
            .join("osbuild"))
    }

    /// Opens the store at `root`, makes it if there is none, and removes the unfinished files of
    /// killed builds.
    ///
    /// # Errors
    /// It belongs to another user or others may write to it, so that their bytes could end up in
    /// nodes; or it cannot be written.
    pub fn open(root: PathBuf) -> Result<Store> {
        Store::open_waiting(root, || ())
    }

    /// Opens the store like [`Store::open`]. `waiting` is called once if a collection of another
    /// build keeps it waiting for a while.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_waiting(root: PathBuf, waiting: impl FnOnce()) -> Result<Store> {
        owner::make(&root)?;
        owner::check(&root)?;
        for directory in ["cas/sha256", "ac", "clients", "memo", "trees", "locks", "tmp", "damaged"]
        {
            let path = root.join(directory);
            fs::create_dir_all(&path).at("make the directory", &path)?;
        }
        let session = Session::begin(&root, waiting)?;
        Ok(Store {
            inner: Arc::new(Inner {
                root,
                session,
                checked: Mutex::default(),
                damaged: AtomicUsize::new(0),
            }),
        })
    }

    fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Runs a build, and runs it again if it failed because an entry was damaged or gone. By then
    /// the entry is moved away, so the step that made it runs again and all others are found.
    ///
    /// # Errors
    /// The last error of `build`.
    pub fn healing<T>(&self, report: &Report, mut build: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..MAX_HEALINGS {
            let before = self.inner.damaged.load(Ordering::Relaxed);
            match build() {
                Err(error) if self.inner.damaged.load(Ordering::Relaxed) > before => {
                    report.warning(&error.problems[0].message)
                }
                other => return other,
            }
        }
        build()
    }
}

/// Records a use of a file, so that [`Store::collect`] keeps it. A time to come is corrected: a
/// clock that was ahead has recorded it. Returns whether the file is still there: a collection that
/// has moved it away before this use removes it, and one that sees the use moves it back.
fn note_use(path: &Path, metadata: &fs::Metadata) -> bool {
    let is_recent = |time| SystemTime::now().duration_since(time).map(|age| age <= USE_INTERVAL);
    if metadata.modified().is_ok_and(|time| is_recent(time).unwrap_or(false)) {
        return true;
    }
    // The file can be read even where its time cannot be set: it only looks unused for longer.
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    path.exists()
}
