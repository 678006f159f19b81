//! Locks between builds: one build makes an entry and holds its lock, the others wait and then find
//! the entry.

use super::Store;
use crate::engine::fs_error::IoContext;
use crate::engine::stop;
use crate::error::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// The interval at which a held lock is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A lock that is held until it is dropped. The kernel releases it when the process dies.
pub struct Lock {
    _file: File,
    /// Keeps the session of its holder alive: no collection removes the files of locks beside it.
    _store: Option<Store>,
}

impl Lock {
    /// Takes the lock of a file, which is created if it is missing; `None` if it is held. The file
    /// is opened for reading and writing because NFS requires that for shared and exclusive locks
    /// (flock(2)). A folder could not be opened for writing.
    pub(super) fn attempt(path: &Path, operation: FlockOperation) -> Result<Option<Lock>> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .at("open", path)?;
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Lock { _file: file, _store: None })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).at("lock", path),
        }
    }

    /// Takes the lock of a folder outside the store, into which this command writes.
    ///
    /// # Errors
    /// Another command writes into it. Where the file system has no locks of folders, as NFS, that
    /// is not noticed.
    pub fn of_export(folder: &Path) -> Result<Lock> {
        let file = File::open(folder).at("open", folder)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let folder = folder.display();
                Err(Error::build(format!("another command writes into `{folder}`"))
                    .hint("wait until it has ended, or name another folder"))
            }
            _ => Ok(Lock { _file: file, _store: None }),
        }
    }

    /// Waits for the lock of the file `path`. `waiting` is called at every try, and an error of it
    /// ends the wait.
    pub(super) fn acquire(
        path: &Path,
        operation: FlockOperation,
        mut waiting: impl FnMut() -> Result<()>,
    ) -> Result<Lock> {
        loop {
            if let Some(lock) = Lock::attempt(path, operation)? {
                return Ok(lock);
            }
            stop::check()?;
            waiting()?;
            std::thread::sleep(RETRY_INTERVAL);
        }
    }
}

impl Store {
    /// Waits for the lock `name` and takes it. `waiting` is called at every try, and an error of it
    /// ends the wait.
    ///
    /// # Errors
    /// The error of `waiting`, the user interrupts the build, or the store cannot be written.
    pub fn lock(&self, name: &str, waiting: impl FnMut() -> Result<()>) -> Result<Lock> {
        let path = self.root().join("locks").join(name);
        let lock = Lock::acquire(&path, FlockOperation::NonBlockingLockExclusive, waiting)?;
        Ok(self.kept_by(lock))
    }

    /// Takes the lock `name`; `None` if another build holds it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn try_lock(&self, name: &str) -> Result<Option<Lock>> {
        let path = self.root().join("locks").join(name);
        let lock = Lock::attempt(&path, FlockOperation::NonBlockingLockExclusive)?;
        Ok(lock.map(|lock| self.kept_by(lock)))
    }

    /// Waits until no other session has the lock `name` alone, and shares it.
    ///
    /// # Errors
    /// The user interrupts the build, or the store cannot be written.
    pub fn lock_shared(&self, name: &str) -> Result<Lock> {
        let path = self.root().join("locks").join(name);
        let lock = Lock::acquire(&path, FlockOperation::NonBlockingLockShared, || Ok(()))?;
        Ok(self.kept_by(lock))
    }

    fn kept_by(&self, lock: Lock) -> Lock {
        Lock { _store: Some(self.clone()), ..lock }
    }
}
