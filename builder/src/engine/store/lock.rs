//! Locks between builds: whoever makes something holds its lock, and the others wait and then find
//! it made.

use super::Store;
use crate::engine::fs_error::IoContext;
use crate::engine::stop;
use crate::error::Result;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// How long one waits between two looks at a lock that another build holds.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A lock that is held until it is dropped. The kernel drops it for a process that dies.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a file if nobody holds it in a way that forbids it. The file is made if it
    /// is not there. It is opened for reading and writing: on NFS, whoever wants a shared lock must
    /// be able to read, whoever wants it alone must be able to write (flock(2)), and nobody can
    /// write to a folder.
    pub(super) fn attempt(path: &Path, operation: FlockOperation) -> Result<Option<Lock>> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .at("open", path)?;
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).at("lock", path),
        }
    }

    /// Waits for the lock of the file `path`. `waiting` is called now and then meanwhile, and ends
    /// the wait by an error.
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
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Store {
    /// Waits until nobody else makes what `name` stands for, and keeps it so. `waiting` is called
    /// now and then while somebody does, and ends the wait by an error.
    pub fn lock(&self, name: &str, waiting: impl FnMut() -> Result<()>) -> Result<Lock> {
        Lock::acquire(
            &self.root().join("locks").join(name),
            FlockOperation::NonBlockingLockExclusive,
            waiting,
        )
    }

    /// Keeps what `name` stands for to this build, unless another one does.
    pub fn try_lock(&self, name: &str) -> Result<Option<Lock>> {
        Lock::attempt(
            &self.root().join("locks").join(name),
            FlockOperation::NonBlockingLockExclusive,
        )
    }
}
