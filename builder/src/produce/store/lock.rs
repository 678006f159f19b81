//! Locks between builds: whoever makes something holds its lock, and the others wait and then find it made.

use super::Store;
use crate::error::Result;
use crate::produce::disk::OnDisk;
use crate::produce::stop;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// How long one waits between two looks at a lock that another build holds.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A lock that is held until it is dropped. The kernel drops it for a process that dies.
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of an open file or directory if nobody holds it in a way that forbids it.
    pub(super) fn attempt(file: File, path: &Path, operation: FlockOperation) -> Result<Option<Lock>> {
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Lock { file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).at("lock", path),
        }
    }

    /// Waits for the lock of the file `path`. `waiting` is called now and then meanwhile, and ends the wait by an error.
    pub(super) fn acquire(path: &Path, operation: FlockOperation, mut waiting: impl FnMut() -> Result<()>) -> Result<Lock> {
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(path).at("open", path)?;
            if let Some(lock) = Lock::attempt(file, path, operation)? {
                return Ok(lock);
            }
            stop::check()?;
            waiting()?;
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Whether nobody else holds a part of this shared lock; if so it is exclusive from now on, until [`Lock::share`].
    pub(super) fn exclude(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Makes an exclusive lock, or one that [`Lock::exclude`] failed to make exclusive and so gave up, a shared one.
    pub(super) fn share(&self, path: &Path) -> Result<()> {
        flock(&self.file, FlockOperation::LockShared).at("lock", path)
    }
}

impl Store {
    /// Waits until nobody else makes what `name` stands for, and keeps it so. `waiting` is called now and then while somebody does, and
    /// ends the wait by an error.
    pub fn lock(&self, name: &str, waiting: impl FnMut() -> Result<()>) -> Result<Lock> {
        Lock::acquire(&self.root().join("locks").join(name), FlockOperation::NonBlockingLockExclusive, waiting)
    }
}
