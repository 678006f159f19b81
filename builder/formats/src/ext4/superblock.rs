//! The superblock (Linux, Documentation/filesystems/ext4/super.rst).

use core::mem::offset_of;

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum;

/// The offset of the first superblock in bytes.
pub const START: u64 = 1024;
pub const MAGIC: u16 = 0xEF53;
/// The bit of `feature_ro_compat` for checksums of metadata.
pub const METADATA_CSUM: u32 = 0x400;
/// The largest block size in bytes.
const MAX_BLOCK_SIZE: u64 = 64 << 10;

/// `struct ext4_super_block`. The fields without a meaning here have no names of their own.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Superblock {
    pub inodes: U32,
    pub blocks: U32,
    /// The lower half of a number that is a small part of `blocks`.
    pub reserved_blocks: U32,
    pub free_blocks: U32,
    pub free_inodes: U32,
    pub first_data_block: U32,
    /// The block size is 1024 shifted left by this.
    pub log_block_size: U32,
    pub log_cluster_size: U32,
    pub blocks_per_group: U32,
    pub clusters_per_group: U32,
    pub inodes_per_group: U32,
    pub mount_time: U32,
    pub write_time: U32,
    pub mount_count: U16,
    pub max_mount_count: U16,
    pub magic: U16,
    pub state: U16,
    pub on_error: U16,
    pub minor_rev_level: U16,
    pub last_check: U32,
    pub check_interval: U32,
    pub creator_os: U32,
    pub rev_level: U32,
    pub reserved_for: [U16; 2],
    pub first_ino: U32,
    pub inode_size: U16,
    pub block_group_nr: U16,
    pub feature_compat: U32,
    pub feature_incompat: U32,
    pub feature_ro_compat: U32,
    pub uuid: [u8; 16],
    pub label: [u8; 16],
    last_mounted: [u8; 64],
    algorithms: U32,
    preallocation: [u8; 2],
    reserved_gdt_blocks: U16,
    journal_uuid: [u8; 16],
    pub journal_inum: U32,
    journal_device: U32,
    last_orphan: U32,
    pub hash_seed: [u8; 16],
    pub hash_version: u8,
    pub journal_backup_type: u8,
    pub desc_size: U16,
    pub default_mount_options: U32,
    first_meta_group: U32,
    pub format_time: U32,
    /// A copy of the journal's extents, and both halves of its size.
    pub journal_backup: [U32; 17],
    blocks_high: U32,
    reserved_blocks_high: U32,
    free_blocks_high: U32,
    pub min_extra_inode_size: U16,
    pub wanted_extra_inode_size: U16,
    pub flags: U32,
    raid_stride: U16,
    mmp_interval: U16,
    mmp_block: [U32; 2],
    raid_stripe_width: U32,
    pub log_groups_per_flex: u8,
    pub checksum_type: u8,
    statistics: [u8; 0xFA],
    pub checksum_seed: U32,
    reserved: [u8; 0x188],
    pub checksum: U32,
}

pub const SIZE: usize = size_of::<Superblock>();
const CHECKSUM: usize = offset_of!(Superblock, checksum);
const _: () = assert!(SIZE == 1024);
const _: () = assert!(offset_of!(Superblock, magic) == 0x38);
const _: () = assert!(offset_of!(Superblock, first_ino) == 0x54);
const _: () = assert!(offset_of!(Superblock, feature_ro_compat) == 0x64);
const _: () = assert!(offset_of!(Superblock, label) == 0x78);
const _: () = assert!(offset_of!(Superblock, journal_inum) == 0xE0);
const _: () = assert!(offset_of!(Superblock, desc_size) == 0xFE);
const _: () = assert!(offset_of!(Superblock, journal_backup) == 0x10C);
const _: () = assert!(offset_of!(Superblock, flags) == 0x160);
const _: () = assert!(offset_of!(Superblock, checksum_type) == 0x175);
const _: () = assert!(offset_of!(Superblock, checksum_seed) == 0x270);

impl Superblock {
    /// The offset of the second superblock in bytes; `None` if this is not a superblock with a
    /// checksum.
    pub fn offset_of_second(&self) -> Option<u64> {
        let is_ours = self.magic == MAGIC && self.feature_ro_compat.get() & METADATA_CSUM != 0;
        let block_size = 1024u64
            .checked_shl(self.log_block_size.get())
            .filter(|size| (1..=MAX_BLOCK_SIZE).contains(size))?;
        let block = u64::from(self.blocks_per_group.get()) + u64::from(self.first_data_block.get());
        (is_ours && block > 0).then(|| block * block_size)
    }

    /// The checksum that this superblock should have.
    pub fn compute_checksum(&self) -> u32 {
        checksum(&[&self.as_bytes()[..CHECKSUM]])
    }

    /// The fields that neither mounting nor growing changes.
    pub fn constants(&self) -> [u32; 14] {
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
