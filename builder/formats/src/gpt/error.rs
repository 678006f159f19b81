//! Errors of partition tables.

use alloc::boxed::Box;
use core::fmt;

/// Why a partition table was not read or not made.
#[derive(Debug)]
pub enum Error {
    /// The sector size is neither 512 nor 4096.
    SectorSize(u64),
    /// A disk of this many bytes has no room for a partition table.
    DiskTooSmall(u64),
    /// A header does not begin with `EFI PART`.
    NoSignature,
    /// A header's revision or size is not that of UEFI 2.10.
    Revision,
    /// A header's checksum is wrong.
    HeaderChecksum,
    /// A header names another sector as its own.
    WrongSector {
        /// The sector that it names.
        found: u64,
        /// The sector where it was read.
        expected: u64,
    },
    /// An array does not have 128 entries of 128 bytes.
    Array {
        /// The number of its entries.
        entries: u32,
        /// Bytes of each.
        size: u32,
    },
    /// An array begins in this sector, outside the range for its copy of the table.
    ArrayPlace(u64),
    /// An array's checksum is wrong.
    ArrayChecksum,
    /// A header refers to this sector, past the end of the disk.
    BeyondDisk(u64),
    /// A partition with this number is unused, out of order, or not numbered from 1 to 128.
    Number(u32),
    /// The name of this partition is too long or is not text.
    Name(u32),
    /// This partition ends before it begins, or is not within the usable sectors.
    OutOfRange(u32),
    /// These two partitions share sectors.
    Overlap(u32, u32),
    /// The disk could not be read.
    Read(Box<dyn core::error::Error + Send + Sync>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SectorSize(size) => {
                write!(f, "a sector of `{size}` bytes is neither 512 nor 4096")
            }
            Self::DiskTooSmall(size) => {
                write!(f, "a disk of `{size}` bytes has no room for a partition table")
            }
            Self::NoSignature => {
                write!(f, "no partition table: the header does not begin with `EFI PART`")
            }
            Self::Revision => {
                write!(f, "the partition table's header is not of revision 1.0 with 92 bytes")
            }
            Self::HeaderChecksum => {
                write!(f, "the checksum of the partition table's header is wrong")
            }
            Self::WrongSector { found, expected } => {
                write!(
                    f,
                    "the partition table's header in sector `{expected}` names sector `{found}` \
                     as its own"
                )
            }
            Self::Array { entries, size } => {
                write!(
                    f,
                    "the partition table has `{entries}` entries of `{size}` bytes instead of \
                     128 of 128"
                )
            }
            Self::ArrayPlace(sector) => {
                write!(
                    f,
                    "the partition table has its entries in sector `{sector}`, outside of their \
                     range"
                )
            }
            Self::ArrayChecksum => {
                write!(f, "the checksum of the partition table's entries is wrong")
            }
            Self::BeyondDisk(sector) => {
                write!(f, "the partition table refers to sector `{sector}`, past the disk's end")
            }
            Self::Number(number) => {
                write!(f, "partition `{number}` is unused, out of order or not from 1 to 128")
            }
            Self::Name(number) => {
                write!(f, "the name of partition `{number}` is not text of at most 36 UTF-16 units")
            }
            Self::OutOfRange(number) => {
                write!(f, "partition `{number}` is not within the disk's usable sectors")
            }
            Self::Overlap(one, other) => write!(f, "partitions `{one}` and `{other}` overlap"),
            Self::Read(_) => write!(f, "the disk could not be read"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(&**error),
            _ => None,
        }
    }
}
