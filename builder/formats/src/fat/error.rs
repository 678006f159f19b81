//! What can be wrong with a FAT volume.

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
        /// The least size in bytes.
        least: u64,
    },
    /// The volume is larger than FAT32 allows.
    TooLarge(u64),
    /// The files need more room than the volume has.
    Full {
        /// Bytes that the files and folders take.
        needed: u64,
        /// Bytes that the volume has for them.
        room: u64,
    },
    /// The label is longer than 11 bytes or has other characters than capitals, digits and `-`.
    Label(String),
    /// This path is not absolute and plain, or stands in the list twice.
    Path(String),
    /// The volume is not FAT32 as we write it: this field of its first sector is wrong.
    Field(&'static str),
    /// This cluster is used twice, or referred to and not there.
    Cluster(u32),
    /// The name of an entry in this folder is not text, or another one to another reader.
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
            Self::TooSmall { size, least } => {
                write!(f, "FAT32 needs `{least}` bytes on such sectors, not `{size}`")
            }
            Self::TooLarge(size) => write!(f, "`{size}` bytes are more than FAT32 allows"),
            Self::Full { needed, room } => {
                write!(f, "the files need `{needed}` bytes, the FAT volume has `{room}`")
            }
            Self::Label(label) => write!(f, "`{label}` is no label of a FAT volume"),
            Self::Path(path) => {
                write!(f, "`{path}` is no path that a FAT volume can hold, or it is there twice")
            }
            Self::Field(name) => write!(f, "no FAT32 volume: the field `{name}` is wrong"),
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
