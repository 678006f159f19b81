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
    _file: File,
}

impl Lock {
    /// Takes the lock of `file` if nobody holds it in a way that forbids it.
    pub(super) fn attempt(file: File, path: &Path, operation: FlockOperation) -> Result<Option<Lock>> {
        match flock(&file, operation) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).at("lock", path),
        }
    }
}

impl Store {
    /// Waits until nobody else makes what `name` stands for, and keeps it so. `waiting` is called while somebody does, and ends the
    /// wait by an error.
    pub fn lock(&self, name: &str, mut waiting: impl FnMut() -> Result<()>) -> Result<Lock> {
        let path = self.root().join("locks").join(name);
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(&path).at("open", &path)?;
            if let Some(lock) = Lock::attempt(file, &path, FlockOperation::NonBlockingLockExclusive)? {
                return Ok(lock);
            }
            stop::check()?;
            waiting()?;
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
