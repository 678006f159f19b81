//! The superblock of an ext4 file system (Linux, Documentation/filesystems/ext4/super.rst).
//!
//! Linux overwrites it in place when it mounts and unmounts, bypassing the journal. It has 1024
//! bytes and ends with a checksum. If the power fails after a disk with smaller sectors has written
//! only one of them, the checksum is wrong, and both Linux and `e2fsck -p` refuse the file system.

use core::mem::offset_of;

use crc::{CRC_32_ISCSI, Crc};
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::gpt::{Source, Write};

/// The offset of the first superblock in bytes.
const START: u64 = 1024;
/// Bytes of the smallest disk sector.
const SECTOR: usize = 512;

const MAGIC: u16 = 0xEF53;
/// The bit of `feature_ro_compat` for checksums of metadata.
const METADATA_CSUM: u32 = 0x400;
/// The largest block size in bytes.
const MAX_BLOCK_SIZE: u64 = 64 << 10;

/// `struct ext4_super_block`, as far as this program reads it.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Superblock {
    inodes: U32,
    blocks: U32,
    /// The lower half of a number that is a small part of `blocks`.
    reserved_blocks: U32,
    free: [U32; 2],
    first_data_block: U32,
    /// The block size is 1024 shifted left by this.
    log_block_size: U32,
    log_cluster_size: U32,
    blocks_per_group: U32,
    clusters_per_group: U32,
    inodes_per_group: U32,
    mounts: [u8; 12],
    magic: U16,
    state_and_checks: [u8; 18],
    rev_level: U32,
    reserved_for: [U16; 2],
    first_ino: U32,
    inode_size: U16,
    block_group_nr: U16,
    feature_compat: U32,
    feature_incompat: U32,
    feature_ro_compat: U32,
    identity: [u8; 0x78],
    journal_inum: U32,
    journal: [u8; 0x1A],
    desc_size: U16,
    options: [u8; 0x74],
    log_groups_per_flex: u8,
    checksum_type: u8,
    statistics: [u8; 0xFA],
    checksum_seed: U32,
    reserved: [u8; 0x188],
    checksum: U32,
}

const SIZE: usize = size_of::<Superblock>();
const CHECKSUM: usize = offset_of!(Superblock, checksum);
const _: () = assert!(SIZE == 1024);
const _: () = assert!(offset_of!(Superblock, magic) == 0x38);
const _: () = assert!(offset_of!(Superblock, first_ino) == 0x54);
const _: () = assert!(offset_of!(Superblock, feature_ro_compat) == 0x64);
const _: () = assert!(offset_of!(Superblock, journal_inum) == 0xE0);
const _: () = assert!(offset_of!(Superblock, desc_size) == 0xFE);
const _: () = assert!(offset_of!(Superblock, checksum_type) == 0x175);
const _: () = assert!(offset_of!(Superblock, checksum_seed) == 0x270);

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

impl Superblock {
    /// The offset of the second superblock in bytes; `None` if this is not a superblock with a
    /// checksum.
    fn offset_of_second(&self) -> Option<u64> {
        let is_ours = self.magic == MAGIC && self.feature_ro_compat.get() & METADATA_CSUM != 0;
        let block_size = 1024u64
            .checked_shl(self.log_block_size.get())
            .filter(|size| (1..=MAX_BLOCK_SIZE).contains(size))?;
        let block = u64::from(self.blocks_per_group.get()) + u64::from(self.first_data_block.get());
        (is_ours && block > 0).then(|| block * block_size)
    }

    /// The checksum that this superblock should have. ext4 leaves out iSCSI's final inversion.
    fn compute_checksum(&self) -> u32 {
        !Crc::<u32>::new(&CRC_32_ISCSI).checksum(&self.as_bytes()[..CHECKSUM])
    }

    /// The fields that neither mounting nor growing changes.
    fn constants(&self) -> [u32; 14] {
        [
            self.first_data_block.get(),
            self.log_block_size.get(),
            self.log_cluster_size.get(),
            self.blocks_per_group.get(),
            self.clusters_per_group.get(),
            self.inodes_per_group.get(),
            self.magic.get().into(),
            self.rev_level.get(),
            self.first_ino.get(),
            self.inode_size.get().into(),
            self.journal_inum.get(),
            self.desc_size.get().into(),
            u16::from_le_bytes([self.log_groups_per_flex, self.checksum_type]).into(),
            self.checksum_seed.get(),
        ]
    }
}
