//! The folder for entries that were moved aside.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    AtFlags, IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, mkdirat, unlinkat,
};
use rustix::io::Errno;

use super::{magic_path, move_new, open, word};

/// The number of kept entries that were moved aside.
pub const MAX_KEPT: usize = 16;

/// The subfolder of entries to be removed.
const DISCARDED: &str = "discarded";

/// The length to which a kept name is cut, so that it is still a valid name with a number before
/// it.
const MAX_NAME: usize = 200;

/// The number of attempts to find a number that no other process has taken.
const MAX_TRIES: u64 = 100;

/// The number of entries moved aside that have a message of their own: several times as many as a
/// boot finds in its way, unless a program makes them without end.
const MAX_MESSAGES: usize = 64;

/// The entries that were moved aside since the last call of [`moved`].
static MOVED: Mutex<Moved> = Mutex::new(Moved { messages: Vec::new(), more: 0 });

#[derive(Default)]
struct Moved {
    messages: Vec<String>,
    /// The number of those without a message.
    more: u64,
}

/// Takes a sentence for each entry that this process has moved aside since the last call, or for
/// the first of them and one for all others.
pub fn moved() -> Vec<String> {
    let moved = std::mem::take(&mut *MOVED.lock().unwrap_or_else(PoisonError::into_inner));
    let mut messages = moved.messages;
    if moved.more > 0 {
        messages.push(format!("{} more in the way, moved aside as well", moved.more));
    }
    messages
}

/// The next number in each folder, by its path. A number is known after the first entry: a look for
/// the last one takes time in proportion to the number of entries. A folder that this process has
/// opened twice has one order.
static NEXT: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());

fn numbers() -> MutexGuard<'static, BTreeMap<PathBuf, u64>> {
    NEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder, and its subfolder of entries to be removed.
#[derive(Debug)]
pub struct Aside {
    kept: Numbered,
    discarded: Numbered,
    path: PathBuf,
}

impl Aside {
    /// Opens the folder `name` in the folder `parent`, which is at `path`. An entry of that name
    /// that is not a folder is renamed.
    pub fn open(parent: &OwnedFd, path: &Path, name: &str) -> io::Result<Aside> {
        let kept = open_or_make(parent, name)?;
        let discarded = open_or_make(&kept, DISCARDED)?;
        let path = path.join(name);
        let kept = Numbered { folder: kept, path: path.clone() };
        let discarded = Numbered { folder: discarded, path: path.join(DISCARDED) };
        Ok(Aside { kept, discarded, path })
    }

    /// Moves an entry of a folder at `path` here. `unlock` removes the attributes that forbid it.
    pub fn keep(
        &self,
        folder: &OwnedFd,
        path: &Path,
        name: &OsStr,
        unlock: impl Fn(),
    ) -> io::Result<()> {
        let kind = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
        let new = self.kept.take(folder, name, unlock)?;
        let what = word(rustix::fs::FileType::from_raw_mode(kind));
        let message = format!(
            "{} is {what}, and is moved aside to {}",
            path.join(name).display(),
            self.path.join(new).display()
        );
        let mut moved = MOVED.lock().unwrap_or_else(PoisonError::into_inner);
        match moved.messages.len() < MAX_MESSAGES {
            true => moved.messages.push(message),
            false => moved.more += 1,
        }
        Ok(())
    }

    /// Moves an entry of a folder into the subfolder of entries to be removed.
    pub fn discard(&self, folder: &OwnedFd, name: &OsStr, unlock: impl Fn()) -> io::Result<()> {
        self.discarded.take(folder, name, unlock).map(drop)
    }

    /// The name of the folder.
    pub fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Moves what was kept into the subfolder of entries to be removed.
    pub fn discard_kept(&self) -> io::Result<()> {
        let kept = &self.kept.folder;
        for name in names(kept)?.iter().filter(|name| number(name).is_some()) {
            self.discard(kept, OsStr::new(name), || {})?;
        }
        Ok(())
    }

    /// Whether there are entries to be removed.
    pub fn is_untidy(&self) -> bool {
        let entries = |folder: &OwnedFd| names(folder).map_or(0, |names| names.len());
        entries(&self.discarded.folder) > 0 || entries(&self.kept.folder) > MAX_KEPT + 1
    }

    /// Removes the entries to be removed, and the oldest kept ones. It continues after an error,
    /// and returns the first one.
    pub fn tidy(&self) -> io::Result<()> {
        let (kept_in, discarded_in) = (&self.kept.folder, &self.discarded.folder);
        let mut kept: Vec<(u64, String)> =
            names(kept_in)?.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
        kept.sort_unstable();
        let oldest = kept.len().saturating_sub(MAX_KEPT);
        let old = kept.drain(..oldest).map(|(_, name)| (kept_in, name));
        let discarded = names(discarded_in)?.into_iter().map(|name| (discarded_in, name));
        let mut outcome = Ok(());
        for (folder, name) in discarded.chain(old) {
            outcome = outcome.and(remove_all(folder, &name));
        }
        outcome
    }
}

/// A folder of entries with numbers before their names.
#[derive(Debug)]
struct Numbered {
    folder: OwnedFd,
    path: PathBuf,
}

impl Numbered {
    /// Moves an entry of `from` into the folder, with the next number before its name, and returns
    /// the new name.
    fn take(&self, from: &OwnedFd, name: &OsStr, unlock: impl Fn()) -> io::Result<String> {
        let text = name.to_string_lossy();
        let mut ends = (0..=text.len().min(MAX_NAME)).rev();
        let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        for _ in 0..MAX_TRIES {
            let new = format!("{}-{}", self.next()?, &text[..end]);
            let mut outcome = move_new(from, name, &self.folder, &new);
            if outcome == Err(Errno::PERM) {
                unlock();
                outcome = move_new(from, name, &self.folder, &new);
            }
            match outcome {
                Ok(()) => return Ok(new),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Another process has taken many numbers: the next call looks for the last one again.
        numbers().remove(&self.path);
        Err(Errno::EXIST.into())
    }

    /// The next number, which no other caller gets.
    fn next(&self) -> io::Result<u64> {
        let take = |next: &mut u64| {
            let number = *next;
            *next = number.saturating_add(1);
            number
        };
        if let Some(next) = numbers().get_mut(&self.path) {
            return Ok(take(next));
        }
        // Nothing is locked during the look: a disk that hangs must not hold up other folders.
        let first = self.after_last()?;
        Ok(take(numbers().entry(self.path.clone()).or_insert(first)))
    }

    /// The number after the last one.
    fn after_last(&self) -> io::Result<u64> {
        let last = names(&self.folder)?.iter().filter_map(|name| number(name)).max();
        Ok(last.map_or(0, |last| last.saturating_add(1)))
    }
}

/// The number before a name.
fn number(name: &str) -> Option<u64> {
    name.split_once('-')?.0.parse().ok()
}

/// The names of a folder that are text.
fn names(folder: &OwnedFd) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(magic_path(folder))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

/// Opens the folder `name`, and creates it if necessary. Another entry of that name is removed:
/// only this program uses the name.
fn open_or_make(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = || open::open_at(parent, name, flags, Mode::empty());
    let folder = match open() {
        Ok(folder) => folder,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                unlock(parent);
                unlinkat(parent, name, AtFlags::empty())?;
            }
            mkdirat(parent, name, Mode::from_raw_mode(super::PRIVATE))?;
            open()?
        }
    };
    unlock(&folder);
    Ok(folder)
}

/// Removes the attributes that prevent even root from changing an entry. A file system without
/// attributes needs nothing.
pub fn unlock(entry: impl AsFd) {
    let locks = IFlags::IMMUTABLE | IFlags::APPEND;
    if let Ok(flags) = ioctl_getflags(entry.as_fd())
        && flags.intersects(locks)
    {
        let _ = ioctl_setflags(entry.as_fd(), flags - locks);
    }
}

/// Removes an entry and everything in it, without following symbolic links.
fn remove_all(folder: &OwnedFd, name: &str) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => fs::remove_dir_all(magic_path(folder).join(name)),
        removed => Ok(removed?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_move_that_hangs_does_not_hold_up_one_to_another_folder() {
        let places = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [hangs, other] = places.each_ref().map(|place| {
            let path = place.path().canonicalize().unwrap();
            fs::write(path.join("file"), "").unwrap();
            let folder = OwnedFd::from(fs::File::open(&path).unwrap());
            let aside = Aside::open(&folder, &path, "aside").unwrap();
            (folder, aside)
        });
        let file = fs::File::open(places[0].path().join("file")).unwrap();
        ioctl_setflags(&file, IFlags::IMMUTABLE).expect("these tests require uid 0");
        let (ended, ends) = channel();
        let mut other = Some(other);
        let moves_other = std::cell::RefCell::new(move || {
            let (folder, aside) = other.take().unwrap();
            let ended = ended.clone();
            std::thread::spawn(move || {
                ended.send(aside.discard(&folder, OsStr::new("file"), || {})).unwrap();
            });
            ends.recv_timeout(Duration::from_secs(10)).expect("it waits for the first").unwrap();
        });
        // The first move is under way as long as this runs.
        let meanwhile = || {
            moves_other.borrow_mut()();
            unlock(&file);
        };
        hangs.1.discard(&hangs.0, OsStr::new("file"), meanwhile).unwrap();
    }
}
