//! Errors of an initramfs.

use std::{fmt, io};

/// Why an initramfs was not written or not read.
#[derive(Debug)]
pub enum Error {
    /// This path is not absolute, has an empty, `.` or `..` component, or cannot be stored.
    Path(String),
    /// The parent folder of this entry is not in the list.
    NoFolder(String),
    /// This path is in the list twice.
    Twice(String),
    /// This mode has bits other than the twelve permission bits.
    Mode(u32),
    /// This file is larger than the format allows (4 GiB).
    TooLarge(String),
    /// An entry has a type that our initramfs never has, such as a hard link.
    Kind {
        /// Its path.
        path: String,
        /// Its stored mode.
        mode: u32,
    },
    /// The data of this file end early.
    Truncated(String),
    /// Other bytes follow the archive, from this offset.
    Behind(usize),
    /// Reading or writing failed.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "path `{path}` is not valid in an initramfs"),
            Self::NoFolder(path) => write!(f, "the folder of `{path}` is not in the initramfs"),
            Self::Twice(path) => write!(f, "`{path}` is in the initramfs twice"),
            Self::Mode(mode) => write!(f, "mode `{mode:o}` has bits besides permissions"),
            Self::TooLarge(path) => write!(f, "`{path}` is larger than 4 GiB"),
            Self::Kind { path, mode } => {
                write!(f, "`{path}` with mode `{mode:o}` is of a kind that is not supported")
            }
            Self::Truncated(path) => write!(f, "the initramfs ends within `{path}`"),
            Self::Behind(offset) => {
                write!(f, "something follows the archive, at offset `{offset}` of the initramfs")
            }
            Self::Io(_) => write!(f, "the initramfs could not be read or written"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
