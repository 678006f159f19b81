//! ext4 (Linux, Documentation/filesystems/ext4): the repair and the change of a superblock, and a
//! new file system, which Linux grows to its disk.
//!
//! Linux overwrites the superblock in place when it mounts and unmounts, bypassing the journal. It
//! has 1024 bytes and ends with a checksum. If the power fails after a disk with smaller sectors
//! has written only one of them, the checksum is wrong, and both Linux and `e2fsck -p` refuse the
//! file system.

mod format;
mod structures;
mod superblock;

pub use format::{Format, MIN_SIZE, Step};

use alloc::string::String;
use alloc::vec::Vec;

use crc::{CRC_32_ISCSI, Crc, Digest, Table};
use uuid::Uuid;
use zerocopy::{FromZeros, IntoBytes};

use self::superblock::{MAGIC, SIZE, START, Superblock};
use crate::gpt::{Source, Write};

/// Bytes of the smallest disk sector.
const SECTOR: usize = 512;

/// The checksum of metadata. ext4 leaves out its final inversion.
static CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// The checksum of all the parts, one after the other.
fn checksum(parts: &[&[u8]]) -> u32 {
    let mut digest: Digest<'_, u32, Table<1>> = CHECKSUM.digest();
    parts.iter().for_each(|part| digest.update(part));
    !digest.finalize()
}

/// An ext4 file system, as its superblock describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its identifier.
    pub uuid: Uuid,
    /// Its label, without control characters and what follows a NUL.
    pub label: String,
}

/// Returns which file system the first superblock describes, also if its checksum is wrong; `None`
/// if there is none.
///
/// # Errors
/// The volume cannot be read.
pub fn identity<D: Source + ?Sized>(volume: &mut D) -> Result<Option<Identity>, D::Error> {
    let mut first = Superblock::new_zeroed();
    volume.read_at(START, first.as_mut_bytes())?;
    let label: Vec<u8> = first.label.into_iter().take_while(|byte| *byte != 0).collect();
    let label = String::from_utf8_lossy(&label).chars().filter(|one| !one.is_control()).collect();
    let found = Identity { uuid: Uuid::from_bytes(first.uuid), label };
    Ok((first.magic == MAGIC).then_some(found))
}

/// Returns the write that repairs a superblock of which one half is new and the other old; `None`
/// if the checksum is right, or if the second superblock's constant fields differ, so that the
/// damage has another cause. Linux wrote each half on purpose, and they differ in counters and
/// times only. The write is one sector: a power cut leaves it to the next boot.
///
/// # Errors
/// The volume cannot be read.
pub fn mend<D: Source + ?Sized>(volume: &mut D) -> Result<Option<Write>, D::Error> {
    let mut first = Superblock::new_zeroed();
    volume.read_at(START, first.as_mut_bytes())?;
    let right = first.compute_checksum();
    let Some(offset) = first.offset_of_second().filter(|_| first.checksum != right) else {
        return Ok(None);
    };
    let mut second = Superblock::new_zeroed();
    volume.read_at(offset, second.as_mut_bytes())?;
    if first.constants() != second.constants() {
        return Ok(None);
    }
    first.checksum = right.into();
    let half = SIZE - SECTOR;
    Ok(Some(Write { offset: START + half as u64, bytes: first.as_bytes()[half..].to_vec() }))
}

/// Returns the write that makes this the number of blocks that only privileged programs use; `None`
/// if it is that already, or if this is not a superblock with a right checksum. Only the first
/// superblock changes: the others are for a file system that is damaged.
///
/// # Errors
/// The volume cannot be read.
pub fn reserve<D: Source + ?Sized>(volume: &mut D, blocks: u32) -> Result<Option<Write>, D::Error> {
    let mut first = Superblock::new_zeroed();
    volume.read_at(START, first.as_mut_bytes())?;
    let is_sound = first.offset_of_second().is_some() && first.checksum == first.compute_checksum();
    if !is_sound || first.reserved_blocks == blocks {
        return Ok(None);
    }
    first.reserved_blocks = blocks.into();
    first.checksum = first.compute_checksum().into();
    Ok(Some(Write { offset: START, bytes: first.as_bytes().to_vec() }))
}
