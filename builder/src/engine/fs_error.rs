//! Errors of file operations that name the operation and the path, and the operations on
//! directories whose plain versions fail too easily.

use crate::error::{Error, Result, remedy};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Turns a failed file operation into our error.
pub trait IoContext<T> {
    /// Adds the operation, a verb, and its path: "cannot `doing` `path`". A full disk has an error
    /// of its own, with a hint.
    ///
    /// # Errors
    /// The operation failed.
    fn at(self, doing: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn at(self, doing: &str, path: &Path) -> Result<T> {
        self.map_err(|error| failed(doing, path, &error.into()))
    }
}

/// The error of a file operation: "cannot `doing` `path`", or the one of a full disk.
pub fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(path),
        _ => {
            let ours = Error::build(format!("cannot {doing} `{}`", path.display())).cause(error);
            remedy(error).into_iter().fold(ours, Error::hint)
        }
    }
}

/// The error of a full disk.
pub fn full(path: &Path) -> Error {
    let ours = Error::build(format!("no space left on the disk of `{}`", path.display()));
    remedy(&io::ErrorKind::StorageFull.into()).into_iter().fold(ours, Error::hint)
}

/// Makes a directory with mode 0755 under every umask, because a step can read the mode.
pub fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .at("make the directory", path)
}

/// Writes the entries of a directory to the medium, so that a power cut loses none that was added
/// or renamed before. Some file systems refuse this, and need no such call.
pub fn sync_directory(path: &Path) -> Result<()> {
    match File::open(path).and_then(|directory| directory.sync_all()) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        other => other.at("write", path),
    }
}

/// Removes a file or a directory tree, read-only directories included, which Go's module cache
/// consists of. A path that does not exist counts as removed.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path).or_else(|_| {
            unlock(path);
            fs::remove_dir_all(path)
        }),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove", path),
    }
}

/// Lets the owner write to every directory at and below `path`. An error here recurs in the removal
/// and is reported there.
fn unlock(path: &Path) {
    let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unlock(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_an_error_of_its_own() {
        let path = Path::new("/some/file");
        let full: Result<()> = Err(io::Error::from_raw_os_error(libc::ENOSPC)).at("write", path);
        assert!(
            full.unwrap_err()
                .to_string()
                .contains("no space left on the disk of `/some/file`\nhint: ")
        );
        let other: Result<()> = Err(io::Error::from_raw_os_error(libc::EACCES)).at("write", path);
        assert!(
            other
                .unwrap_err()
                .to_string()
                .starts_with("error: cannot write `/some/file`\n  caused by: ")
        );
    }
}
