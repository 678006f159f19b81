//! Errors of disks.

use osbuild_formats::gpt;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

/// Why an image was not written to a disk.
#[derive(Debug)]
pub enum Error {
    /// The disk cannot be opened.
    Open(PathBuf, io::Error),
    /// "cannot `doing` `path`".
    Io {
        /// The operation: a verb.
        doing: &'static str,
        /// The file of the operation.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The image has no valid partition table.
    Image(PathBuf, gpt::Error),
    /// The kernel kept the disk's old partitions because one is in use.
    InUse(PathBuf),
    /// Another disk has the device file of the one that was found.
    Replaced(PathBuf),
    /// The disk cannot take the image's partition table.
    Table(gpt::Error),
    /// The partitions end past the end of the disk.
    TooSmall,
    /// The data read back are not the data written.
    Differs {
        /// The disk.
        path: PathBuf,
        /// The first byte that differs, from the start of the disk.
        at: u64,
    },
    /// The system returned no random numbers.
    Random,
}

/// Adds the operation to an I/O error.
pub(crate) trait At<T> {
    /// `doing` is a verb, `path` the file of the operation.
    fn at(self, doing: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, doing: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|error| Error::Io { doing, path: path.to_owned(), error: error.into() })
    }
}

impl Display for Error {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Error::Open(path, _) => write!(out, "cannot open `{}`", path.display()),
            Error::Io { doing, path, .. } => write!(out, "cannot {doing} `{}`", path.display()),
            Error::Image(path, _) => {
                write!(out, "the image `{}` has no valid partition table", path.display())
            }
            Error::InUse(path) => write!(out, "a partition of `{}` is in use", path.display()),
            Error::Replaced(path) => {
                write!(out, "`{}` is another disk than the one that was found", path.display())
            }
            Error::Table(_) => write!(out, "cannot make the partition table"),
            Error::TooSmall => write!(out, "the partitions end past the end of the disk"),
            Error::Differs { path, at } => {
                write!(
                    out,
                    "`{}` does not keep written data: it differs at byte {at}",
                    path.display()
                )
            }
            Error::Random => write!(out, "the system returned no random numbers"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Open(_, error) | Error::Io { error, .. } => Some(error),
            Error::Image(_, error) | Error::Table(error) => Some(error),
            Error::InUse(_)
            | Error::Replaced(_)
            | Error::TooSmall
            | Error::Differs { .. }
            | Error::Random => None,
        }
    }
}
