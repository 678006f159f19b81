//! What the file system says, as an error for people.

use crate::error::{Error, Result};
use std::io;
use std::path::Path;

/// Turns a failed file operation into our error.
pub trait OnDisk<T> {
    /// `doing` is a verb, `path` what it was done to: "cannot `doing` `path`". A full disk is said as such, with what to do.
    fn at(self, doing: &str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> OnDisk<T> for std::result::Result<T, E> {
    fn at(self, doing: &str, path: &Path) -> Result<T> {
        self.map_err(|error| {
            let error = error.into();
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(path),
                _ => Error::build(format!("cannot {doing} `{}`", path.display())).cause(error),
            }
        })
    }
}

/// The error of a disk without room for `path`.
pub fn full(path: &Path) -> Error {
    Error::build(format!("no space left on the disk of `{}`", path.display()))
        .hint("make room there, or let `osbuild clean --store` remove what old builds left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_and_another_failure_is_not_called_one() {
        let path = Path::new("/some/file");
        let full: Result<()> = Err(io::Error::from_raw_os_error(libc::ENOSPC)).at("write", path);
        assert!(full.unwrap_err().to_string().contains("no space left on the disk of `/some/file`\nhint: "));
        let other: Result<()> = Err(io::Error::from_raw_os_error(libc::EACCES)).at("write", path);
        assert!(other.unwrap_err().to_string().starts_with("error: cannot write `/some/file`\n  caused by: "));
    }
}
