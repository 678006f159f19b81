//! FAT32 structures as they are stored (FAT specification 1.03).

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The boot sector, up to its last field that this program reads.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BootSector {
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

impl BootSector {
    /// Whether the volume is FAT32, as Linux decides.
    #[cfg(feature = "volumes")]
    pub fn is_fat32(&self) -> bool {
        self.sectors_per_table_16 == 0 && self.sectors_per_table != 0
    }
}

/// The last bytes of the boot sector's first 512.
#[cfg(feature = "volumes")]
pub(crate) const BOOT_SIGNATURE: [u8; 2] = [0x55, 0xAA];

/// The fields of the boot sector about the volume.
#[cfg(feature = "volumes")]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct VolumeId {
    drive: u8,
    reserved: u8,
    signature: u8,
    number: U32,
    pub label: [u8; 11],
}

#[cfg(feature = "volumes")]
impl VolumeId {
    /// Its offset in bytes in the boot sector of FAT12 and FAT16.
    pub const IN_FAT16: usize = 36;
    /// The same in that of FAT32.
    pub const IN_FAT32: usize = 64;

    /// Whether the field with the label exists.
    pub fn has_label(&self) -> bool {
        self.signature == 0x29
    }
}

/// The sector with the number of free clusters, which is a hint.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct InfoSector {
    pub signature: [u8; 4],
    reserved: [u8; 480],
    signature2: [u8; 4],
    pub free_clusters: U32,
}

/// A directory entry of a file, a directory or a volume label.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DirEntry {
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
pub(crate) struct LongNameEntry {
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
pub(crate) const ENTRY: usize = size_of::<DirEntry>();

const _: () = assert!(size_of::<BootSector>() == 50);
const _: () = assert!(size_of::<InfoSector>() == 492);
const _: () = assert!(ENTRY == 32 && size_of::<LongNameEntry>() == ENTRY);

/// The name of eight and three characters; `None` if it is not ASCII.
pub(crate) fn short_name(entry: &DirEntry) -> Option<String> {
    let name = std::str::from_utf8(&entry.name).ok().filter(|name| name.is_ascii())?;
    let (base, extension) = name.split_at(8);
    let (base, extension) = (base.trim_end_matches(' '), extension.trim_end_matches(' '));
    Some(if extension.is_empty() { base.to_owned() } else { format!("{base}.{extension}") })
}
