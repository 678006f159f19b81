//! The temporary folders of machines. One can hold a copy of a disk with secrets, so the next run
//! removes those of killed ones.

use crate::engine::fs_error;
use crate::error::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// The start of the folders' names.
const PREFIX: &str = "machine-";

/// The file in a folder whose lock shows that the folder is in use.
const LOCK: &str = "lock";

/// The age at which a folder without [`LOCK`] is unused. Versions of osbuild before the file make
/// no other folders, and use them for some minutes at most.
const UNLOCKED_AGE: Duration = Duration::from_secs(60 * 60);

/// A temporary folder, which is removed when it is dropped, or by the next [`Scratch::near`] if its
/// process was killed.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes a folder in `near`, and removes those there that no process uses any more.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn near(near: &Path) -> Result<Self> {
        let cannot = || format!("cannot make a folder in `{}`", near.display());
        fs::create_dir_all(near).or_build(|| format!("cannot make `{}`", near.display()))?;
        remove_unused(near);
        loop {
            let folder =
                tempfile::Builder::new().prefix(PREFIX).tempdir_in(near).or_build(cannot)?;
            // Another run that looks at this moment takes the folder for an unused one.
            if let Some(lock) = locked(folder.path()).or_build(cannot)? {
                return Ok(Scratch { folder, _lock: lock });
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes and takes the lock of a new folder; `None` if another process removes the folder.
fn locked(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let lock = File::create(&path)?;
    // Where locks do not work, nobody removes the folder of another process.
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        _ => Ok(path.exists().then_some(lock)),
    }
}

/// Removes the folders of killed runs. What cannot be removed is left to the next run.
fn remove_unused(near: &Path) {
    for entry in fs::read_dir(near).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let folder = entry.path();
        let lock = File::options().write(true).open(folder.join(LOCK));
        let is_unused = match &lock {
            Ok(lock) => flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(_) => age(&folder).is_some_and(|age| age > UNLOCKED_AGE),
        };
        if is_unused {
            let _ = fs_error::remove(&folder);
        }
    }
}

/// The time since the last entry was added to a folder.
fn age(folder: &Path) -> Option<Duration> {
    fs::symlink_metadata(folder).ok()?.modified().ok()?.elapsed().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn what_a_killed_run_left_goes_with_the_next_one() {
        let near = tempfile::tempdir().unwrap();
        let left = |name: &str, files: &[&str]| {
            let folder = near.path().join(name);
            fs::create_dir(&folder).unwrap();
            files.iter().for_each(|file| fs::write(folder.join(file), "a secret").unwrap());
            folder
        };
        let killed = left("machine-killed", &["disk", LOCK]);
        let [old, new] = ["machine-old", "machine-new"].map(|name| left(name, &["disk"]));
        let long_ago = SystemTime::now() - 2 * UNLOCKED_AGE;
        File::open(&old).unwrap().set_modified(long_ago).unwrap();
        let other = left("other", &["disk", LOCK]);
        let first = Scratch::near(near.path()).unwrap();
        assert!(!killed.exists() && !old.exists() && new.exists() && other.exists());
        let second = Scratch::near(near.path()).unwrap();
        assert!(first.path().exists() && second.path().exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn runs_that_start_at_the_same_time_keep_their_folders() {
        let near = tempfile::tempdir().unwrap();
        let run = || {
            for _ in 0..50 {
                let scratch = Scratch::near(near.path()).unwrap();
                fs::write(scratch.path().join("disk"), "").unwrap();
            }
        };
        std::thread::scope(|scope| {
            [(); 4].map(|()| scope.spawn(run)).map(|run| run.join().unwrap())
        });
        assert_eq!(fs::read_dir(near.path()).unwrap().count(), 0);
    }
}
