//! FAT32 structures as they are stored (FAT specification 1.03).

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The boot sector, up to its last field that this program reads.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct BootSector {
    jump: [u8; 3],
    oem_name: [u8; 8],
    pub bytes_per_sector: U16,
    pub sectors_per_cluster: u8,
    pub reserved_sectors: U16,
    pub tables: u8,
    /// Zero in FAT32, like the other fields whose names end with `16`.
    pub root_entries_16: U16,
    pub sectors_16: U16,
    media: u8,
    pub sectors_per_table_16: U16,
    geometry: [U16; 2],
    hidden_sectors: U32,
    pub sectors: U32,
    pub sectors_per_table: U32,
    pub flags: U16,
    pub version: U16,
    pub root_cluster: U32,
    /// The sector of [`InfoSector`].
    pub info_sector: U16,
}

/// The sector with the number of free clusters, which is a hint.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct InfoSector {
    pub signature: [u8; 4],
    reserved: [u8; 480],
    signature2: [u8; 4],
    pub free_clusters: U32,
}

/// A directory entry of a file, a directory or a volume label.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DirEntry {
    /// Eight characters and three, padded with spaces. The first byte also marks unused entries.
    pub name: [u8; 11],
    pub attributes: u8,
    reserved: u8,
    created: [u8; 5],
    accessed: U16,
    first_cluster_high: U16,
    written: [U16; 2],
    first_cluster_low: U16,
    /// Bytes of a file; zero for a directory.
    pub size: U32,
}

impl DirEntry {
    pub fn first_cluster(&self) -> u32 {
        u32::from(self.first_cluster_high.get()) << 16 | u32::from(self.first_cluster_low.get())
    }

    pub fn set_first_cluster(&mut self, number: u32) {
        self.first_cluster_high = ((number >> 16) as u16).into();
        self.first_cluster_low = (number as u16).into();
    }
}

/// A directory entry with a part of the long name of the entry after it ("Long Directory Entries").
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct LongNameEntry {
    /// The part's number, from 1, with a flag for the last part of the name.
    pub number: u8,
    pub units1: [U16; 5],
    attributes: u8,
    /// Zero.
    pub kind: u8,
    /// The checksum of the short name.
    pub checksum: u8,
    pub units2: [U16; 6],
    /// Zero.
    pub first_cluster: U16,
    pub units3: [U16; 2],
}

/// Bytes of a directory entry.
pub(super) const ENTRY: usize = size_of::<DirEntry>();

const _: () = assert!(size_of::<BootSector>() == 50);
const _: () = assert!(size_of::<InfoSector>() == 492);
const _: () = assert!(ENTRY == 32 && size_of::<LongNameEntry>() == ENTRY);
