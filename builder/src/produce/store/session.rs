//! What one running build has not finished. It lives in a directory whose lock says whether the build is still alive.

use super::{Lock, Store};
use crate::error::{Error, Result};
use crate::produce::disk::{self, OnDisk};
use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// A running build's place in `tmp/`, and its part of the lock that keeps [`Store::collect`] away.
pub(super) struct Session {
    directory: PathBuf,
    count: AtomicU64,
    /// What is being removed. A build's thousands of small files can take a disk a while, and nobody should wait for that.
    removals: Mutex<Vec<JoinHandle<()>>>,
    _alive: Lock,
    in_use: Lock,
}

impl Session {
    /// Begins a session and sweeps away those whose build is gone.
    pub(super) fn begin(root: &Path) -> Result<Session> {
        let (tmp, locks) = (root.join("tmp"), root.join("locks"));
        let in_use = Lock::acquire(&locks.join("in-use"), FlockOperation::NonBlockingLockShared, || Ok(()))?;
        let (directory, alive, abandoned) = {
            // A session without a lock is an abandoned one, so nobody may look between the making of the two.
            let _gate = Lock::acquire(&locks.join("sessions"), FlockOperation::NonBlockingLockExclusive, || Ok(()))?;
            let abandoned = abandoned(&tmp)?;
            let directory = tempfile::Builder::new().prefix("build-").tempdir_in(&tmp).at("make a directory in", &tmp)?.keep();
            let alive =
                hold(&directory)?.ok_or_else(|| Error::build(format!("somebody else locked `{}`", directory.display())))?;
            (directory, alive, abandoned)
        };
        // Nobody waits for this thread: what it has not removed when this program ends, the next build sweeps.
        thread::spawn(|| {
            for (path, _lock) in abandoned {
                // A sandbox that is dying may still hold a file for an instant: the next build tries again.
                let _ = disk::remove(&path);
            }
        });
        Ok(Session { directory, count: AtomicU64::new(0), removals: Mutex::default(), _alive: alive, in_use })
    }

    /// A path in the session that nothing has had yet.
    pub(super) fn fresh(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{}", self.count.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs `work` while no other build uses the store; `None` when one does.
    pub(super) fn alone<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        let result = self.in_use.exclude().then(work);
        self.in_use.share(&self.directory)?;
        result.transpose()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for removal in self.removals.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A removal does not panic, and if it did there would be nothing to do about it here.
            let _ = removal.join();
        }
        // What cannot be removed now is swept by the next build.
        let _ = disk::remove(&self.directory);
    }
}

fn hold(directory: &Path) -> Result<Option<Lock>> {
    let file = File::open(directory).at("open", directory)?;
    Lock::attempt(file, directory, FlockOperation::NonBlockingLockExclusive)
}

fn abandoned(tmp: &Path) -> Result<Vec<(PathBuf, Lock)>> {
    let mut abandoned = Vec::new();
    for entry in fs::read_dir(tmp).at("read", tmp)? {
        let path = entry.at("read", tmp)?.path();
        // A session that ends right now takes its directory away beneath our hands, which is as good.
        if let Ok(Some(lock)) = hold(&path) {
            abandoned.push((path, lock));
        }
    }
    Ok(abandoned)
}

/// A directory for unfinished things, on the store's own file system. It goes with its owner, or with the session.
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
        let removal = thread::spawn(move || drop(disk::remove(&path)));
        self.store.inner.session.removals.lock().unwrap_or_else(PoisonError::into_inner).push(removal);
    }
}

impl Store {
    /// A new, empty directory for unfinished things.
    pub fn scratch(&self) -> Result<Scratch> {
        let path = self.inner.session.fresh("work");
        disk::make_directory(&path)?;
        Ok(Scratch { path, store: self.clone() })
    }
}
