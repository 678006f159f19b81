//! Errors of volumes.

use std::{fmt, io};

/// Why a volume or a file on it was not read.
#[derive(Debug)]
pub enum Error {
    /// This part cannot be read.
    Read {
        /// The part.
        what: &'static str,
        /// The reason.
        error: io::Error,
    },
    /// This part contradicts the format.
    Damaged(&'static str),
    /// The volume uses this feature of the format, which the reader does not have.
    Unsupported(&'static str),
    /// Something at this path is not what the path needs.
    NotA {
        /// The path.
        path: String,
        /// The kind that it has to have.
        wanted: &'static str,
        /// The kind that it has.
        found: &'static str,
    },
    /// The folder at this path has too many entries.
    LargeFolder(String),
    /// The file at this path is too large.
    LargeFile {
        /// The path.
        path: String,
        /// Its bytes.
        size: u64,
        /// The maximum.
        max: usize,
    },
    /// Two entries of one folder have this name, and readers differ in which one they open.
    Twice(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { what, error } if error.kind() == io::ErrorKind::UnexpectedEof => {
                write!(f, "the volume ends within {what}")
            }
            Self::Read { what, error } => write!(f, "cannot read {what}: {error}"),
            Self::Damaged(what) => write!(f, "{what} is damaged"),
            Self::Unsupported(what) => write!(f, "{what} are not supported"),
            Self::NotA { path, wanted, found } => {
                write!(f, "`{path}` is {found}, not {wanted}")
            }
            Self::LargeFolder(path) => write!(f, "the folder `{path}` has too many entries"),
            Self::LargeFile { path, size, max } => {
                write!(f, "`{path}` has {size} bytes, which is more than {max}")
            }
            Self::Twice(path) => write!(f, "two entries have the name `{path}`"),
        }
    }
}

impl std::error::Error for Error {}
