//! The GUID partition table (UEFI 2.10, chapter 5) and its protective MBR, on sectors of 512 and
//! 4096 bytes.
//!
//! The code is our own instead of the crate `gpt` for three reasons. That crate writes to the
//! device itself, in an order that a caller can neither see nor flush step by step;
//! [`Label::change_to`] returns a list of writes that a test can interrupt anywhere. It panics on
//! an entry size that it does not expect, and multiplies untrusted sizes unchecked. And it brings a
//! random number generator into PID 1. The tests use it as an oracle. Tables have 128 entries of
//! 128 bytes, as all common tools write them; others are refused.

mod error;
mod geometry;
mod header;
mod label;
mod mbr;
mod partition;
mod source;
mod table;

use alloc::vec::Vec;

use uuid::Uuid;

pub use error::Error;
pub use geometry::Geometry;
pub use label::{Health, Label, create, is_as_created};
pub use partition::Partition;
pub use source::Source;
pub use table::Table;

/// Entries in an array.
const ENTRIES: usize = 128;
/// Bytes of an entry.
const ENTRY_SIZE: usize = 128;
/// Bytes of an array.
const ARRAY_SIZE: usize = ENTRIES * ENTRY_SIZE;

/// Bytes to be written to the disk at an offset. For a partition table, the offset and the length
/// are multiples of the sector size; for a file system, they need not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The offset in bytes from the start of the disk.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Returns the identifier for a name, always the same: a UUID of version 5 (RFC 9562) in our own
/// namespace.
pub fn guid_from_name(name: &str) -> Uuid {
    let namespace = Uuid::new_v5(&Uuid::NAMESPACE_URL, b"osbuild");
    Uuid::new_v5(&namespace, name.as_bytes())
}
