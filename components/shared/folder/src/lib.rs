//! Files below a folder that other programs may write to: a pod with a host path, or a previous
//! user of the disk.
//!
//! Such a folder may contain a FIFO, which blocks a process that opens it, a symbolic link to a
//! disk, or a folder in place of a file. A [`Folder`] resolves names with openat2(2), below its own
//! descriptor and through no symbolic link, and opens regular files only. An entry that is in the
//! way of a new file or folder is moved aside, for a person to inspect, and is neither followed nor
//! removed.
//!
//! At most [`MAX_KEPT`] entries of a boot or two are kept: [`Folder::tidy`] removes the oldest, and
//! those that were [discarded](Folder::discard).

#![forbid(unsafe_code)]

mod aside;
mod open;
mod replace;
pub mod small_file;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read};
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
pub use replace::Replacement;

/// The mode of folders for root only.
const PRIVATE: u32 = 0o700;

/// An open folder.
#[derive(Clone, Debug)]
pub struct Folder {
    descriptor: Arc<OwnedFd>,
    path: PathBuf,
    aside: Arc<Aside>,
}

impl Folder {
    /// Opens the folder at an absolute path without symbolic links. Entries below it that are moved
    /// aside are kept in its subfolder `aside`.
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

    /// Its path at the time of opening.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path of this very folder, even after a rename. `/proc` must be mounted.
    pub fn magic_path(&self) -> PathBuf {
        magic_path(&*self.descriptor)
    }

    /// Opens its subfolder `name`, and creates it with these permission bits if it does not exist.
    /// Another entry of that name is moved aside.
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

    /// Opens its existing subfolder `name`.
    pub fn existing_folder(&self, name: &str) -> io::Result<Folder> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = open_at(&self.descriptor, name, flags, Mode::empty())?;
        Ok(Folder {
            descriptor: Arc::new(descriptor),
            path: self.path.join(name),
            aside: Arc::clone(&self.aside),
        })
    }

    /// The type of the entry `name`, without following a symbolic link; `None` if it does not
    /// exist.
    pub fn kind(&self, name: impl AsRef<OsStr>) -> io::Result<Option<FileType>> {
        let name = is_name(name.as_ref())?;
        match statat(&*self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The names in the folder, without `.` and `..`.
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

    /// Opens the regular file `name` for reading; `None` if it does not exist, an error if it is
    /// not a regular file.
    pub fn file(&self, name: &str) -> io::Result<Option<File>> {
        self.regular(name, OFlags::RDONLY)
    }

    /// Reads the regular file `name`; `None` if it does not exist, an error if it is not a regular
    /// file or has more than `max` bytes.
    pub fn read(&self, name: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(max + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > max {
            true => Err(io::Error::other(format!("it has more than {max} bytes"))),
            false => Ok(Some(bytes)),
        }
    }

    /// Does the same for text.
    pub fn read_text(&self, name: &str, max: u64) -> io::Result<Option<String>> {
        let bytes = self.read(name, max)?;
        bytes
            .map(|bytes| String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text")))
            .transpose()
    }

    /// Creates a new, empty file `name`. A regular file of that name is removed, another entry is
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

    /// Opens the regular file `name` for writing, and creates it if it does not exist. Another
    /// entry of that name is moved aside.
    pub fn open_or_create(&self, name: &str, mode: u32) -> io::Result<File> {
        if self.kind(name)? == Some(FileType::RegularFile)
            && let Some(file) = self.regular(name, OFlags::WRONLY)?
        {
            return Ok(file);
        }
        self.create(name, mode)
    }

    /// Replaces the file `name` with these bytes and permission bits. A power cut leaves the old
    /// file or the new one; after the return, the new one.
    pub fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.replacing(name, bytes, mode).collect()
    }

    /// The steps of [`Folder::replace`]: each is taken when the iterator is advanced, so that a
    /// test can end between any two of them.
    pub fn replacing<'a>(&'a self, name: &'a str, bytes: &'a [u8], mode: u32) -> Replacement<'a> {
        Replacement::new(self, name, bytes, mode)
    }

    /// Renames a regular file. A regular file with the new name is replaced; another entry with
    /// either name is moved aside.
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

    /// Removes the regular file `name`, or moves another entry of that name aside. It may be
    /// missing.
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

    /// Moves the entry `name` aside, whatever its type, and adds a message to [`moved`].
    pub fn move_aside(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = is_name(name.as_ref())?;
        self.aside.keep(&self.descriptor, &self.path, name, || self.unlock(name))
    }

    /// Moves the entry `name` to where [`Folder::tidy`] removes it. This takes the same time for
    /// any size. The entry may be missing.
    pub fn discard(&self, name: &str) -> io::Result<()> {
        let name = is_name(OsStr::new(name))?;
        match self.kind(name)? {
            None => Ok(()),
            Some(_) => self.aside.discard(&self.descriptor, name, || self.unlock(name)),
        }
    }

    /// Moves all entries to where [`Folder::tidy`] removes them, also those that were moved aside,
    /// except those whose names are `kept`.
    pub fn discard_all(&self, kept: impl Fn(&OsStr) -> bool) -> io::Result<()> {
        self.aside.discard_kept()?;
        for name in self.names()? {
            if name != *self.aside.name() && !kept(&name) {
                self.aside.discard(&self.descriptor, &name, || self.unlock(&name))?;
            }
        }
        Ok(())
    }

    /// Whether [`Folder::tidy`] has anything to do.
    pub fn is_untidy(&self) -> bool {
        self.aside.is_untidy()
    }

    /// Removes discarded entries, and entries that were moved aside except for the newest
    /// [`MAX_KEPT`]. This takes time in proportion to the number of files.
    pub fn tidy(&self) -> io::Result<()> {
        self.aside.tidy()
    }

    fn regular(&self, name: &str, flags: OFlags) -> io::Result<Option<File>> {
        // An `O_PATH` descriptor opens neither the file nor a device.
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

    /// Removes the attributes that prevent even root from changing an entry.
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

/// A file type in words.
pub fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of unknown type",
    }
}

/// Moves a file between two folders, and never replaces another.
fn move_new(from: impl AsFd, name: &OsStr, to: impl AsFd, new: &str) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE)
}
