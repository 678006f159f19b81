//! The structures of a new file system, with Linux' names for their fields where those have a
//! meaning here (`fs/ext4/ext4.h`, `ext4_extents.h`, `include/linux/jbd2.h`).

use zerocopy::byteorder::big_endian::U32 as BigU32;
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `struct ext4_group_desc` of a file system with 64-bit block numbers.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GroupDescriptor {
    pub block_bitmap: U32,
    pub inode_bitmap: U32,
    pub inode_table: U32,
    pub free_blocks: U16,
    pub free_inodes: U16,
    pub folders: U16,
    pub flags: U16,
    exclude_bitmap: U32,
    pub block_bitmap_checksum: U16,
    pub inode_bitmap_checksum: U16,
    /// The inodes at the end of the table that were never used.
    pub unused_inodes: U16,
    pub checksum: U16,
    high: [U32; 3],
    high_counts: [U16; 4],
    exclude_bitmap_high: U32,
    pub block_bitmap_checksum_high: U16,
    pub inode_bitmap_checksum_high: U16,
    reserved: U32,
}

/// The inode table has no old bytes.
pub const INODES_ZEROED: u16 = 4;

/// `struct ext4_inode` of 256 bytes, with one extent in it.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Inode {
    pub mode: U16,
    owner: U16,
    pub size: U32,
    pub access_time: U32,
    pub change_time: U32,
    pub modify_time: U32,
    delete_time: U32,
    group: U16,
    pub links: U16,
    /// In units of 512 bytes.
    pub sectors: U32,
    pub flags: U32,
    version: U32,
    pub extents: Extents,
    generation: U32,
    file_acl: U32,
    size_high: U32,
    fragment: U32,
    sectors_high: U16,
    file_acl_high: U16,
    owners_high: [U16; 2],
    pub checksum: U16,
    unused: U16,
    pub extra_size: U16,
    pub checksum_high: U16,
    extra_times: [U32; 3],
    pub creation_time: U32,
    extra: [U32; 3],
    attributes: [u8; 96],
}

/// The field `i_block` has extents.
pub const HAS_EXTENTS: u32 = 0x8_0000;

/// The root of a tree of extents that has one of them.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Extents {
    pub magic: U16,
    pub entries: U16,
    pub max_entries: U16,
    depth: U16,
    generation: U32,
    first_block: U32,
    pub length: U16,
    start_high: U16,
    pub start: U32,
    unused: [U32; 9],
}

pub const EXTENTS_MAGIC: u16 = 0xF30A;

/// `struct ext4_dir_entry_2` without its name.
#[derive(IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Entry {
    pub inode: U32,
    /// The distance to the next one in bytes.
    pub length: U16,
    pub name_length: u8,
    pub file_type: u8,
}

/// The file type of a folder.
pub const FOLDER: u8 = 2;

/// `struct ext4_dir_entry_tail`: the end of a block of a folder, which is no entry for programs
/// that know no checksums.
#[derive(IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Tail {
    pub entry: Entry,
    pub checksum: U32,
}

/// The file type of a tail.
pub const TAIL: u8 = 0xDE;

/// The start of `struct journal_superblock_s`.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct JournalSuperblock {
    pub magic: BigU32,
    pub block_type: BigU32,
    header_sequence: BigU32,
    pub block_size: BigU32,
    pub blocks: BigU32,
    pub first_block: BigU32,
    pub sequence: BigU32,
    /// The first block of the log; none if it is empty.
    start: BigU32,
    errno: BigU32,
    features: [BigU32; 3],
    pub uuid: [u8; 16],
    pub users: BigU32,
}

pub const JOURNAL_MAGIC: u32 = 0xC03B_3998;
/// A superblock of the second version.
pub const JOURNAL_SUPERBLOCK: u32 = 4;

const _: () = assert!(size_of::<GroupDescriptor>() == 64);
const _: () = assert!(size_of::<Inode>() == 256);
const _: () = assert!(size_of::<Extents>() == 60);
const _: () = assert!(size_of::<Tail>() == 12);
