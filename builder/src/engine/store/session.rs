//! What one running build has not finished. It lives in a directory whose lock says whether the
//! build is still alive.

use super::{Lock, Store};
use crate::engine::fs_error::{self, IoContext};
use crate::error::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

/// The file in a session's directory whose lock says that its build is alive, and whose time when
/// that began.
const ALIVE: &str = "alive";

/// A running build's place in `tmp/`.
pub(super) struct Session {
    directory: PathBuf,
    count: AtomicU64,
    /// What is being removed. A build's thousands of small files can take a disk a while, and
    /// nobody should wait for that.
    removals: Mutex<Vec<JoinHandle<()>>>,
    _alive: Lock,
    /// An osbuild of before collects nothing while somebody holds a part of this lock.
    _in_use: Lock,
}

impl Session {
    /// Begins a session and sweeps away those whose build is gone.
    pub(super) fn begin(root: &Path) -> Result<Session> {
        let (tmp, locks) = (root.join("tmp"), root.join("locks"));
        let in_use =
            Lock::acquire(&locks.join("in-use"), FlockOperation::NonBlockingLockShared, || Ok(()))?;
        let (directory, alive, abandoned) = {
            // A session without a lock is an abandoned one, so nobody may look between the making
            // of the two.
            let _gate = gate(root)?;
            let abandoned =
                sessions(&tmp)?.into_iter().filter_map(|(path, state)| Some((path, state.ok()?)));
            let abandoned = abandoned.collect::<Vec<_>>();
            let directory = tempfile::Builder::new()
                .prefix("build-")
                .tempdir_in(&tmp)
                .at("make a directory in", &tmp)?
                .keep();
            let alive =
                Lock::attempt(&directory.join(ALIVE), FlockOperation::NonBlockingLockExclusive)?;
            let alive = alive.ok_or_else(|| {
                Error::build(format!("somebody else locked `{}`", directory.display()))
            })?;
            (directory, alive, abandoned)
        };
        // Nobody waits for this thread: what it has not removed when this program ends, the next
        // build sweeps.
        thread::spawn(|| {
            for (path, _lock) in abandoned {
                // A sandbox that is dying may still hold a file for an instant: the next build
                // tries again.
                let _ = fs_error::remove(&path);
            }
        });
        Ok(Session {
            directory,
            count: AtomicU64::new(0),
            removals: Mutex::default(),
            _alive: alive,
            _in_use: in_use,
        })
    }

    /// A path in the session that nothing has had yet.
    pub(super) fn fresh(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{}", self.count.fetch_add(1, Ordering::Relaxed)))
    }

    /// When the oldest of the other sessions began whose builds run; none if none does. Somebody
    /// has to hold the [`gate`].
    pub(super) fn oldest_other(&self, root: &Path) -> Result<Option<SystemTime>> {
        let others =
            sessions(&root.join("tmp"))?.into_iter().filter(|(path, _)| *path != self.directory);
        Ok(others.filter_map(|(_, state)| state.err()).min())
    }
}

/// Keeps sessions from beginning as long as it is held.
pub(super) fn gate(root: &Path) -> Result<Lock> {
    Lock::acquire(&root.join("locks/sessions"), FlockOperation::NonBlockingLockExclusive, || Ok(()))
}

/// The directory of each session: with its lock if its build is gone, else with the time when it
/// began.
fn sessions(tmp: &Path) -> Result<Vec<(PathBuf, std::result::Result<Lock, SystemTime>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(tmp).at("read", tmp)? {
        let path = entry.at("read", tmp)?.path();
        let alive = path.join(ALIVE);
        // A session that ends right now takes its directory away beneath our hands: then there is
        // none.
        let state = match Lock::attempt(&alive, FlockOperation::NonBlockingLockExclusive) {
            // An osbuild of before locks the directory itself.
            Ok(Some(lock)) if is_free(&path) => Ok(lock),
            Ok(Some(_)) => Err(SystemTime::UNIX_EPOCH),
            Ok(None) => Err(fs::metadata(&alive)
                .and_then(|about| about.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH)),
            Err(_) => continue,
        };
        found.push((path, state));
    }
    Ok(found)
}

/// Whether nobody has locked a directory, as far as its file system can say.
fn is_free(directory: &Path) -> bool {
    let Ok(file) = File::open(directory) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive) != Err(rustix::io::Errno::WOULDBLOCK)
}

impl Drop for Session {
    fn drop(&mut self) {
        for removal in self.removals.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A removal does not panic, and if it did there would be nothing to do about it here.
            let _ = removal.join();
        }
        // What cannot be removed now is swept by the next build.
        let _ = fs_error::remove(&self.directory);
    }
}

/// A directory for unfinished things, on the store's own file system. It goes with its owner, or
/// with the session.
pub struct Scratch {
    path: PathBuf,
    store: Store,
}

impl Scratch {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        // What cannot be removed now goes with the session's directory.
        let removal = thread::spawn(move || drop(fs_error::remove(&path)));
        self.store
            .inner
            .session
            .removals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(removal);
    }
}

impl Store {
    /// A new, empty directory for unfinished things.
    pub fn scratch(&self) -> Result<Scratch> {
        let path = self.inner.session.fresh("work");
        fs_error::make_directory(&path)?;
        Ok(Scratch { path, store: self.clone() })
    }
}
