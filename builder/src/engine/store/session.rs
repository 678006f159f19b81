//! The unfinished files of one running build, in a directory whose lock shows that the build is
//! alive.

use super::{Lock, Store};
use crate::engine::fs_error::{self, IoContext};
use crate::error::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// The file in a session's directory whose lock shows that its build is alive. Its time of
/// modification is the start of the build.
const ALIVE: &str = "alive";

/// The start of the name of a running build's directory.
const RUNNING: &str = "build-";

/// The start of the name of a dead build's directory, whose lock its removal holds.
const DEAD: &str = "dead-";

/// How long the start of another session can take.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// The directory of a running build in `tmp/`.
pub(super) struct Session {
    directory: PathBuf,
    count: AtomicU64,
    /// Removals in the background: deleting the thousands of files of a step takes a while.
    removals: Mutex<Vec<JoinHandle<()>>>,
    _alive: Lock,
    /// For versions of osbuild before the file [`ALIVE`], which remove the directory of a session
    /// if it is unlocked. `None` where directories cannot be locked, as on NFS.
    _directory: Option<File>,
    /// For versions of osbuild before sessions, which collect nothing while this lock is shared.
    _in_use: Lock,
}

impl Session {
    /// Starts a session, and removes those of dead builds. `waiting` is that of [`gate`].
    pub(super) fn begin(root: &Path, waiting: impl FnOnce()) -> Result<Session> {
        let (tmp, locks) = (root.join("tmp"), root.join("locks"));
        let in_use =
            Lock::acquire(&locks.join("in-use"), FlockOperation::NonBlockingLockShared, || Ok(()))?;
        let (directory, alive, locked, abandoned) = {
            // A session without a lock counts as abandoned, so no other build may look between the
            // creation of the directory and that of its lock.
            let _gate = gate(root, waiting)?;
            let mut abandoned = Vec::new();
            for (path, state) in sessions(&tmp)? {
                let Ok(lock) = state else { continue };
                abandoned.push((mark_dead(path), lock));
            }
            let directory = match make(&tmp) {
                Err(error) if is_full(&error) => {
                    make_room(root, std::mem::take(&mut abandoned));
                    make(&tmp)
                }
                other => other,
            };
            let directory = directory.at("make a directory in", &tmp)?;
            let alive =
                Lock::attempt(&directory.join(ALIVE), FlockOperation::NonBlockingLockExclusive)?;
            let alive = alive.ok_or_else(|| {
                Error::build(format!("another process locked `{}`", directory.display()))
            })?;
            let locked = lock_directory(&directory);
            (directory, alive, locked, abandoned)
        };
        // Never joined: the next build removes what is left when this program ends.
        thread::spawn(|| {
            for (path, _lock) in abandoned {
                // A dying sandbox can hold a file a little longer: the next build tries again.
                let _ = fs_error::remove(&path);
            }
        });
        Ok(Session {
            directory,
            count: AtomicU64::new(0),
            removals: Mutex::default(),
            _alive: alive,
            _directory: locked,
            _in_use: in_use,
        })
    }

    /// An unused path in the session.
    pub(super) fn fresh(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}-{}", self.count.fetch_add(1, Ordering::Relaxed)))
    }

    /// The start of this build.
    pub(super) fn start(&self) -> SystemTime {
        start_of(&self.directory.join(ALIVE))
    }

    /// The start of the oldest other build that runs; `None` if there is none. The caller must hold
    /// the [`gate`].
    pub(super) fn oldest_other(&self, root: &Path) -> Result<Option<SystemTime>> {
        let others = sessions(&root.join("tmp"))?
            .into_iter()
            .filter(|(path, _)| *path != self.directory && !is_dead(path));
        Ok(others.filter_map(|(_, state)| state.err()).min())
    }
}

/// Makes the directory of a session, with the file that is locked next.
fn make(tmp: &Path) -> io::Result<PathBuf> {
    let directory = tempfile::Builder::new().prefix(RUNNING).tempdir_in(tmp)?;
    File::create_new(directory.path().join(ALIVE))?;
    Ok(directory.keep())
}

/// Gives the directory of a dead build the name of one, and returns its path: until it is removed,
/// its lock would count as that of a running build.
fn mark_dead(path: PathBuf) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.strip_prefix(RUNNING).unwrap_or(&name);
    let dead = path.with_file_name(format!("{DEAD}{name}"));
    // If this fails, its removal only looks like a running build for longer.
    if is_dead(&path) || fs::rename(&path, &dead).is_err() { path } else { dead }
}

fn is_dead(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(DEAD.as_bytes()))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Removes at once what no build needs, so that `clean` can start on a full disk: the directories
/// of dead builds, and damaged entries.
fn make_room(root: &Path, abandoned: Vec<(PathBuf, Lock)>) {
    let damaged = fs::read_dir(root.join("damaged")).into_iter().flatten().flatten();
    for path in damaged.map(|entry| entry.path()).chain(abandoned.iter().map(|one| one.0.clone())) {
        // The next try to make a session shows whether enough was removed.
        let _ = fs_error::remove(&path);
    }
}

/// A lock that keeps new sessions from starting. `waiting` is called once if another process holds
/// it for longer than a start takes: a collection does.
pub(super) fn gate(root: &Path, waiting: impl FnOnce()) -> Result<Lock> {
    let (began, mut waiting) = (Instant::now(), Some(waiting));
    let path = root.join("locks/sessions");
    Lock::acquire(&path, FlockOperation::NonBlockingLockExclusive, || {
        if let Some(waiting) = waiting.take_if(|_| began.elapsed() > START_TIMEOUT) {
            waiting();
        }
        Ok(())
    })
}

/// The directory of each session, with its lock if the build is dead and else the start of the
/// build.
fn sessions(tmp: &Path) -> Result<Vec<(PathBuf, std::result::Result<Lock, SystemTime>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(tmp).at("read", tmp)? {
        let path = entry.at("read", tmp)?.path();
        let alive = path.join(ALIVE);
        // A session that ends at this moment removes its directory, so the lock cannot be opened.
        let state = match Lock::attempt(&alive, FlockOperation::NonBlockingLockExclusive) {
            // Versions of osbuild before the file `alive` lock the directory itself.
            Ok(Some(lock)) if is_free(&path) => Ok(lock),
            Ok(Some(_)) => Err(SystemTime::UNIX_EPOCH),
            Ok(None) => Err(start_of(&alive)),
            Err(_) => continue,
        };
        found.push((path, state));
    }
    Ok(found)
}

/// The start of the build with this lock file. A start in the future was noted by a clock that was
/// ahead, so it is unknown: the build may have found any entry.
fn start_of(alive: &Path) -> SystemTime {
    let start = fs::metadata(alive).and_then(|about| about.modified()).ok();
    start.filter(|start| *start <= SystemTime::now()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Locks a directory, if nobody holds its lock and its file system supports such locks.
fn lock_directory(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Whether a directory is unlocked, as far as its file system supports such locks.
fn is_free(directory: &Path) -> bool {
    let Ok(file) = File::open(directory) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive) != Err(rustix::io::Errno::WOULDBLOCK)
}

impl Drop for Session {
    fn drop(&mut self) {
        for removal in self.removals.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A removal does not panic, and nothing could be done about it here.
            let _ = removal.join();
        }
        // If this fails, the next build removes it.
        let _ = fs_error::remove(&self.directory);
    }
}

/// A directory for unfinished files on the store's file system. It is removed when it is dropped,
/// or with the session.
pub struct Scratch {
    path: PathBuf,
    store: Store,
}

impl Scratch {
    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        // If this fails, it goes with the session's directory.
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
    /// A new, empty directory for unfinished files.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn scratch(&self) -> Result<Scratch> {
        let path = self.inner.session.fresh("work");
        fs_error::make_directory(&path)?;
        Ok(Scratch { path, store: self.clone() })
    }
}
