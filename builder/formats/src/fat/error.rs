//! Errors of FAT volumes.

use std::{fmt, io};

/// Why a volume was not written or not read.
#[derive(Debug)]
pub enum Error {
    /// The sector size is neither 512 nor 4096.
    SectorSize(u64),
    /// The volume is too small for FAT32 on such sectors.
    TooSmall {
        /// Its size in bytes.
        size: u64,
        /// The minimum size in bytes.
        min: u64,
    },
    /// The volume, or a file in it, is larger than FAT32 allows.
    TooLarge(u64),
    /// The files need more room than the volume has.
    Full {
        /// Bytes that the files and folders need.
        needed: u64,
        /// Bytes that the volume has for them.
        room: u64,
    },
    /// The label is longer than 11 bytes or has characters other than capitals, digits and `-`.
    Label(String),
    /// This path is not absolute, has an empty, `.` or `..` component, or is not unique.
    Path(String),
    /// This field of the boot sector is wrong, or unlike those of the volumes that we write.
    Field(&'static str),
    /// This cluster is used twice, or does not exist.
    Cluster(u32),
    /// A name in this folder is not text, or readers would disagree about it.
    Name(String),
    /// The file system could not be written.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SectorSize(size) => {
                write!(f, "a sector of `{size}` bytes is neither 512 nor 4096")
            }
            Self::TooSmall { size, min } => {
                write!(f, "a FAT32 volume of `{size}` bytes is too small: the minimum is `{min}`")
            }
            Self::TooLarge(size) => {
                write!(f, "FAT32 cannot have a volume or a file of `{size}` bytes")
            }
            Self::Full { needed, room } => {
                write!(f, "the files need `{needed}` bytes, the FAT volume has `{room}`")
            }
            Self::Label(label) => write!(f, "`{label}` is not a valid label of a FAT volume"),
            Self::Path(path) => {
                write!(f, "path `{path}` is not valid or not unique on a FAT volume")
            }
            Self::Field(name) => write!(f, "not a FAT32 volume: the field `{name}` is wrong"),
            Self::Cluster(number) => {
                write!(f, "cluster `{number}` of the FAT volume is used twice or missing")
            }
            Self::Name(folder) => {
                write!(f, "a name in folder `{folder}` of the FAT volume is damaged")
            }
            Self::Io(_) => write!(f, "the FAT volume could not be written"),
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
