//! Files below a folder that others may write, too: a pod with a host path, or whoever had the
//! disk.
//!
//! Such a folder may hold a FIFO, whose opening blocks, a symbolic link to a disk, or a folder
//! where a file is wanted. A [`Folder`] resolves names with openat2(2), below its own descriptor
//! and through no symbolic link; it opens regular files only. What stands in the way of a file or
//! folder that has to be made is moved aside, where a person can look at it, and not followed or
//! removed.
//!
//! Moved aside is at most [`MAX_KEPT`] entries of a boot or two: [`Folder::tidy`] removes the
//! oldest, and what was [discarded](Folder::discard).

#![forbid(unsafe_code)]

mod aside;
mod open;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, fstat, mkdirat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use aside::{Aside, unlock};
pub use aside::{MAX_KEPT, moved};
use open::{NO_LINKS, is_name, open_at};

/// The modes of folders that nobody but root looks into.
const PRIVATE: u32 = 0o700;

/// An open folder.
#[derive(Clone, Debug)]
pub struct Folder {
    descriptor: Arc<OwnedFd>,
    path: PathBuf,
    aside: Arc<Aside>,
}

impl Folder {
    /// Opens the folder at an absolute path, which has no symbolic link in it. What is moved aside
    /// below it is kept in `aside`, a folder in it.
    pub fn open(path: &Path, aside: &str) -> io::Result<Folder> {
        let root = rustix::fs::open(
            "/",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let below =
            path.strip_prefix("/").map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let descriptor = rustix::fs::openat2(
            root,
            below,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            NO_LINKS,
        )?;
        let aside = Aside::open(&descriptor, path, aside)?;
        Ok(Folder {
            descriptor: Arc::new(descriptor),
            path: path.to_owned(),
            aside: Arc::new(aside),
        })
    }

    /// Where it is, or was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path by which the kernel finds this very folder, whatever has happened to its name.
    /// `/proc` has to be mounted.
    pub fn magic_path(&self) -> PathBuf {
        magic_path(&*self.descriptor)
    }

    /// The folder `name` in it, with these permission bits. It is made if it is not there; what is
    /// there and no folder is moved aside.
    pub fn folder(&self, name: &str, mode: u32) -> io::Result<Folder> {
        if self.kind(name)?.is_some_and(|kind| kind != FileType::Directory) {
            self.move_aside(name)?;
        }
        match mkdirat(&*self.descriptor, name, Mode::from_raw_mode(PRIVATE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let folder = self.existing_folder(name)?;
        unlock(&*folder.descriptor);
        rustix::fs::fchmod(&*folder.descriptor, Mode::from_raw_mode(mode))?;
        Ok(folder)
    }

    /// The folder `name` in it.
    pub fn existing_folder(&self, name: &str) -> io::Result<Folder> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = open_at(&self.descriptor, name, flags, Mode::empty())?;
        Ok(Folder {
            descriptor: Arc::new(descriptor),
            path: self.path.join(name),
            aside: Arc::clone(&self.aside),
        })
    }

    /// What `name` is, a symbolic link not followed; nothing if it is not there.
    pub fn kind(&self, name: impl AsRef<OsStr>) -> io::Result<Option<FileType>> {
        let name = is_name(name.as_ref())?;
        match statat(&*self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is in the folder, but for `.` and `..`.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.descriptor)? {
            let name = OsString::from(OsStr::from_bytes(entry?.file_name().to_bytes()));
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Opens the regular file `name` to read it; nothing if it is not there, and an error if it is
    /// something else.
    pub fn file(&self, name: &str) -> io::Result<Option<File>> {
        self.regular(name, OFlags::RDONLY)
    }

    /// What the regular file `name` holds; nothing if it is not there, and an error if it is
    /// something else or has more than `max` bytes.
    pub fn read(&self, name: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(max + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > max {
            true => Err(io::Error::other(format!("it has more than {max} bytes"))),
            false => Ok(Some(bytes)),
        }
    }

    /// The same as text.
    pub fn read_text(&self, name: &str, max: u64) -> io::Result<Option<String>> {
        let bytes = self.read(name, max)?;
        bytes
            .map(|bytes| String::from_utf8(bytes).map_err(|_| io::Error::other("it is no text")))
            .transpose()
    }

    /// Makes `name` a new, empty file. A regular file of that name is removed, anything else is
    /// moved aside.
    pub fn create(&self, name: &str, mode: u32) -> io::Result<File> {
        self.remove(name)?;
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let file = File::from(open_at(&self.descriptor, name, flags, Mode::from_raw_mode(mode))?);
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(file)
    }

    /// Opens the regular file `name` to write it, and makes it if it is not there. Anything else is
    /// moved aside.
    pub fn open_or_create(&self, name: &str, mode: u32) -> io::Result<File> {
        if self.kind(name)? == Some(FileType::RegularFile)
            && let Some(file) = self.regular(name, OFlags::WRONLY)?
        {
            return Ok(file);
        }
        self.create(name, mode)
    }

    /// Replaces the file `name` by one with these bytes and permission bits. A power cut leaves the
    /// old one or the new one, and once this has returned the new one.
    pub fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        let new = format!(".{name}.new");
        let mut file = self.create(&new, mode)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        self.rename(&new, name)?;
        // Without this the file system may write the new name seconds later.
        Ok(rustix::fs::fsync(&*self.descriptor)?)
    }

    /// Gives a regular file another name. A regular file of that name is replaced; anything else
    /// that has either name is moved aside.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let from = is_name(OsStr::new(from))?;
        if self.kind(from)?.is_some_and(|kind| kind != FileType::RegularFile) {
            return self.move_aside(from);
        }
        if self.kind(to)?.is_some_and(|kind| kind != FileType::RegularFile) {
            self.move_aside(to)?;
        }
        let rename = || renameat(&*self.descriptor, from, &*self.descriptor, to);
        match rename() {
            Err(Errno::PERM) => {
                self.unlock(from);
                self.unlock(OsStr::new(to));
                Ok(rename()?)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Removes the regular file `name`, or moves aside what else has that name. It need not be
    /// there.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match self.kind(name)? {
            None => return Ok(()),
            Some(FileType::RegularFile) => {}
            Some(_) => return self.move_aside(name),
        }
        match unlinkat(&*self.descriptor, name, AtFlags::empty()) {
            Err(Errno::PERM) => {
                self.unlock(OsStr::new(name));
                Ok(unlinkat(&*self.descriptor, name, AtFlags::empty())?)
            }
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Moves `name` aside, whatever it is, and has [`moved`] say so.
    pub fn move_aside(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = is_name(name.as_ref())?;
        self.aside.keep(&self.descriptor, &self.path, name, || self.unlock(name))
    }

    /// Moves `name` to where [`Folder::tidy`] removes it. However much is in it, that takes no
    /// time. It need not be there.
    pub fn discard(&self, name: &str) -> io::Result<()> {
        let name = is_name(OsStr::new(name))?;
        match self.kind(name)? {
            None => Ok(()),
            Some(_) => self.aside.discard(&self.descriptor, name, || self.unlock(name)),
        }
    }

    /// Whether [`Folder::tidy`] has something to do.
    pub fn is_untidy(&self) -> bool {
        self.aside.is_untidy()
    }

    /// Removes what was discarded, and what was moved aside but for the newest [`MAX_KEPT`] of it.
    /// It takes as long as there are files.
    pub fn tidy(&self) -> io::Result<()> {
        self.aside.tidy()
    }

    fn regular(&self, name: &str, flags: OFlags) -> io::Result<Option<File>> {
        // What is only found is neither opened nor, as a device may be, changed by that.
        let found = match open_at(
            &self.descriptor,
            name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::RegularFile => {}
            kind => return Err(io::Error::other(format!("it is {}", word(kind)))),
        }
        let file = rustix::fs::open(
            magic_path(&found),
            flags | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Some(File::from(file)))
    }

    /// Takes off the attributes that keep even root from changing an entry.
    fn unlock(&self, name: &OsStr) {
        unlock(&*self.descriptor);
        if matches!(self.kind(name), Ok(Some(FileType::RegularFile | FileType::Directory))) {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            if let Ok(entry) = open_at(&self.descriptor, name, flags, Mode::empty()) {
                unlock(&entry);
            }
        }
    }
}

fn magic_path(descriptor: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()))
}

/// A kind of file in words.
pub fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of no kind that is known",
    }
}

/// Moves a file between two folders, and refuses to replace anything.
fn move_new(from: impl AsFd, name: &OsStr, to: impl AsFd, new: &str) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE)
}
