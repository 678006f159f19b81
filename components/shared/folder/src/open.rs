//! Name resolution.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Below the folder's descriptor, and through no symbolic link, not even a magic link of `/proc`.
pub const NO_LINKS: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Opens the entry `name` of a folder.
pub fn open_at(
    folder: impl AsFd,
    name: impl AsRef<OsStr>,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let name = is_name(name.as_ref())?;
    Ok(openat2(folder, name, flags, mode, NO_LINKS)?)
}

/// Returns the name of an entry, and refuses a path.
pub fn is_name(name: &OsStr) -> io::Result<&OsStr> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(io::ErrorKind::InvalidInput.into()),
        bytes if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => {
            Err(io::ErrorKind::InvalidInput.into())
        }
        _ => Ok(name),
    }
}
