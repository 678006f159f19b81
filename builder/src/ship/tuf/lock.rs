//! The lock of a repository's folder, into which one process at a time writes.

use crate::engine::fs_error::IoContext;
use crate::engine::stop;
use crate::error::Result;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of the lock file in the folder: NFS cannot lock the folder itself. The file exists only
/// while a release is written, so that it is neither served nor committed.
const NAME: &str = ".osbuild-release.lock";

/// The time between two attempts to take a lock that another process holds.
const RETRY: Duration = Duration::from_millis(50);

/// A lock that is held until it is dropped. The kernel releases it for a process that dies.
pub(super) struct FolderLock {
    path: PathBuf,
    _locked: File,
}

impl FolderLock {
    /// Waits until no other process holds the lock of `folder`, which is made if it is missing.
    /// `waiting` is called once if there is something to wait for.
    ///
    /// # Errors
    /// The folder cannot be written, or the user wants to stop.
    pub fn wait(folder: &Path, waiting: impl FnOnce()) -> Result<Self> {
        fs::create_dir_all(folder).at("make", folder)?;
        let path = folder.join(NAME);
        let mut waiting = Some(waiting);
        loop {
            if let Some(locked) = attempt(&path).at("lock", &path)? {
                return Ok(FolderLock { path, _locked: locked });
            }
            if let Some(waiting) = waiting.take() {
                waiting();
            }
            stop::check()?;
            std::thread::sleep(RETRY);
        }
    }
}

impl Drop for FolderLock {
    /// Removes the file before its lock is released. If that fails, the next process locks the file
    /// that exists.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Locks the file at `path`, unless another process holds its lock.
fn attempt(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    // The previous holder may have removed the file after it was opened here, and a lock on a
    // removed file excludes no other process.
    let ours = file.metadata()?;
    let is_named = fs::metadata(path)
        .is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino()));
    Ok(is_named.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn one_process_at_a_time_holds_the_lock_and_removes_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5 {
                        let lock = FolderLock::wait(folder.path(), || ()).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it at once");
                        entered.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(entered.load(Ordering::SeqCst), 40);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_lock_file_of_a_killed_process_is_taken_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NAME), "").unwrap();
        let waited = Cell::new(false);
        let _lock = FolderLock::wait(folder.path(), || waited.set(true)).unwrap();
        assert!(!waited.get());
    }
}
