//! EROFS structures as they are stored, with the field names of Linux's fs/erofs/erofs_fs.h.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// `struct erofs_super_block`
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SuperBlock {
    pub magic: U32,
    checksum: U32,
    feature_compat: U32,
    /// log2 of the block size.
    pub blkszbits: u8,
    sb_extslots: u8,
    pub root_nid: U16,
    inos: U64,
    build_time: U64,
    build_time_nsec: U32,
    blocks: U32,
    pub meta_blkaddr: U32,
    xattr_blkaddr: U32,
    uuid: [u8; 16],
    volume_name: [u8; 16],
    pub feature_incompat: U32,
    rest: [u8; 44],
}

/// `struct erofs_inode_compact`
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CompactInode {
    format: U16,
    pub xattr_icount: U16,
    pub mode: U16,
    nlink: U16,
    pub size: U32,
    reserved: U32,
    pub block: U32,
    ino: U32,
    pub uid: U16,
    pub gid: U16,
    reserved2: U32,
}

/// `struct erofs_inode_extended`
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct ExtendedInode {
    format: U16,
    pub xattr_icount: U16,
    pub mode: U16,
    reserved: U16,
    pub size: U64,
    pub block: U32,
    ino: U32,
    pub uid: U32,
    pub gid: U32,
    mtime: U64,
    mtime_nsec: U32,
    nlink: U32,
    reserved2: [u8; 16],
}

/// `struct erofs_dirent`
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Dirent {
    pub nid: U64,
    pub nameoff: U16,
    file_type: u8,
    reserved: u8,
}

/// `struct z_erofs_map_header`, which precedes the indexes of a compressed file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct MapHeader {
    fragment: U32,
    pub advise: U16,
    pub algorithms: u8,
    pub cluster_bits: u8,
}

/// `struct erofs_inode_chunk_index`
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct ChunkIndex {
    advise: U16,
    pub device_id: U16,
    pub blkaddr: U32,
}

const _: () = assert!(size_of::<SuperBlock>() == 128);
const _: () = assert!(size_of::<CompactInode>() == 32);
const _: () = assert!(size_of::<ExtendedInode>() == 64);
const _: () = assert!(size_of::<Dirent>() == 12);
const _: () = assert!(size_of::<MapHeader>() == 8);
const _: () = assert!(size_of::<ChunkIndex>() == 8);
