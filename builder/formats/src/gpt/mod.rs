//! The GUID partition table (UEFI 2.10, chapter 5) and its protective MBR, on sectors of 512 and
//! 4096 bytes.
//!
//! The code is our own, not the crate `gpt`, for three reasons: that crate writes to a device in an
//! order that cannot be seen or cut into flushed steps, while [`Label::change_to`] gives the writes
//! as a list that a test can cut anywhere; it panics on an entry size of its disfavour and
//! multiplies untrusted sizes unchecked; and it brings a random number generator into PID 1. It
//! serves as an oracle in the tests. Tables have 128 entries of 128 bytes, as every common tool
//! writes them; others are refused.

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

/// Bytes to be written to the disk at an offset, both multiples of the sector size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where, in bytes from the start of the disk.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// The identifier that belongs to a name, always the same: a UUID of version 5 (RFC 9562) in a name
/// space of our own.
pub fn guid_from_name(name: &str) -> Uuid {
    let namespace = Uuid::new_v5(&Uuid::NAMESPACE_URL, b"osbuild");
    Uuid::new_v5(&namespace, name.as_bytes())
}
