//! Files below a folder, through no symbolic link: an entry in a folder must not lead to a file
//! elsewhere.

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

const NO_LINKS: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Opens a file of the folder; nothing if it is missing, no regular file, or behind a link.
pub fn file(folder: &Path, name: &Path) -> io::Result<Option<File>> {
    let Some(file) = open(folder, name, OFlags::NONBLOCK | OFlags::NOCTTY)? else {
        return Ok(None);
    };
    let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
    Ok((kind == FileType::RegularFile).then(|| File::from(file)))
}

/// The names in a folder of the folder, `.` for itself, in order. There are none if it is missing,
/// no folder, or behind a link.
pub fn names(folder: &Path, name: &Path) -> io::Result<Vec<String>> {
    let Some(found) = open(folder, name, OFlags::DIRECTORY)? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in Dir::new(found)? {
        let name = entry?.file_name().to_owned().into_string();
        names.extend(name.ok().filter(|name| ![".", ".."].contains(&name.as_str())));
    }
    names.sort_unstable();
    Ok(names)
}

fn open(folder: &Path, name: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let of_folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let found = openat(CWD, folder, of_folder, Mode::empty()).and_then(|folder| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
        openat2(folder, name, flags, Mode::empty(), NO_LINKS)
    });
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
