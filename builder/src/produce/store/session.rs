//! What one running build has not finished. It lives in a directory whose lock says whether the build is still alive.

use super::{Lock, Store};
use crate::error::{Error, Result};
use crate::produce::disk::OnDisk;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A running build's place in `tmp/`, and its part of the lock that keeps [`Store::collect`] away.
pub(super) struct Session {
    directory: PathBuf,
    count: AtomicU64,
    _alive: Lock,
    in_use: File,
}

impl Session {
    /// Begins a session and sweeps away those whose build is gone.
    pub(super) fn begin(root: &Path) -> Result<Session> {
        let tmp = root.join("tmp");
        let in_use = open_lock(&root.join("locks/in-use"))?;
        flock(&in_use, FlockOperation::LockShared).at("lock", root)?;
        let (directory, alive, abandoned) = {
            // A session without a lock is an abandoned one, so nobody may look between the making of the two.
            let gate = open_lock(&root.join("locks/sessions"))?;
            flock(&gate, FlockOperation::LockExclusive).at("lock", root)?;
            let abandoned = abandoned(&tmp)?;
            let directory = tempfile::Builder::new().prefix("build-").tempdir_in(&tmp).at("make a directory in", &tmp)?.keep();
            let alive =
                hold(&directory)?.ok_or_else(|| Error::build(format!("somebody else locked `{}`", directory.display())))?;
            (directory, alive, abandoned)
        };
        for (path, _lock) in abandoned {
            // A sandbox that is dying may still hold a file for an instant: the next build tries again.
            let _ = fs::remove_dir_all(path);
        }
        Ok(Session { directory, count: AtomicU64::new(0), _alive: alive, in_use })
    }

    /// A path in the session that nothing has had yet.
    pub(super) fn fresh(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{}", self.count.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs `work` while no other build uses the store; `None` when one does.
    pub(super) fn alone<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        match flock(&self.in_use, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                // The kernel gives the shared lock up before it tries for the other one.
                flock(&self.in_use, FlockOperation::LockShared).at("lock", &self.directory)?;
                return Ok(None);
            }
            Err(error) => return Err(error).at("lock", &self.directory),
        }
        let result = work();
        flock(&self.in_use, FlockOperation::LockShared).at("lock", &self.directory)?;
        result.map(Some)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next build.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn open_lock(path: &Path) -> Result<File> {
    File::options().create(true).truncate(false).write(true).open(path).at("open", path)
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
}

impl Scratch {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now goes with the session's directory.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Store {
    /// A new, empty directory for unfinished things.
    pub fn scratch(&self) -> Result<Scratch> {
        let path = self.inner.session.fresh("work");
        fs::create_dir(&path).at("make the directory", &path)?;
        Ok(Scratch { path })
    }
}
