//! The headers of a PE32+ image as they are stored (Microsoft's PE format).

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The DOS header, of which only the two fields with names are used.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DosHeader {
    pub magic: [u8; 2],
    unused: [u8; 58],
    /// The offset of [`SIGNATURE`], which the COFF header follows.
    pub pe_offset: U32,
}

pub(super) const SIGNATURE: [u8; 4] = *b"PE\0\0";

/// The COFF file header. The optional header follows, and after that the section table.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CoffHeader {
    pub machine: U16,
    pub number_of_sections: U16,
    time_date_stamp: U32,
    pub pointer_to_symbol_table: U32,
    pub number_of_symbols: U32,
    pub size_of_optional_header: U16,
    characteristics: U16,
}

/// The optional header of PE32+. `number_of_data_directories` [`DataDirectory`]s follow.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct OptionalHeader {
    pub magic: U16,
    linker_version: [u8; 2],
    sizes: [U32; 3],
    entry_point: U32,
    base_of_code: U32,
    image_base: U64,
    pub section_alignment: U32,
    pub file_alignment: U32,
    versions: [U16; 6],
    win32_version: U32,
    pub size_of_image: U32,
    pub size_of_headers: U32,
    pub checksum: U32,
    pub subsystem: U16,
    dll_characteristics: U16,
    stack_and_heap: [U64; 4],
    loader_flags: U32,
    pub number_of_data_directories: U32,
}

/// The magic number of an optional header of PE32+.
pub(super) const PE32_PLUS: u16 = 0x20B;

/// The place of a table. That of the certificate table is an offset in the file, not an address.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct DataDirectory {
    pub offset: U32,
    pub size: U32,
}

/// The index of the certificate table's data directory.
const CERTIFICATE_TABLE: usize = 4;

/// The offset of that data directory from the start of the optional header.
pub(super) const CERTIFICATE_DIRECTORY: usize =
    size_of::<OptionalHeader>() + CERTIFICATE_TABLE * size_of::<DataDirectory>();

/// An entry of the section table.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct SectionEntry {
    pub name: [u8; 8],
    pub virtual_size: U32,
    pub virtual_address: U32,
    pub size_of_raw_data: U32,
    pub pointer_to_raw_data: U32,
    pub relocations_and_line_numbers: [U32; 3],
    pub characteristics: U32,
}

/// The head of an entry of the certificate table (`WIN_CERTIFICATE`).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CertificateHeader {
    /// Bytes of the entry, with this head and without padding.
    pub length: U32,
    pub revision: U16,
    pub certificate_type: U16,
}

const _: () = assert!(size_of::<DosHeader>() == 64);
const _: () = assert!(size_of::<CoffHeader>() == 20);
const _: () = assert!(size_of::<OptionalHeader>() == 112);
const _: () = assert!(size_of::<DataDirectory>() == 8);
const _: () = assert!(size_of::<SectionEntry>() == 40);
const _: () = assert!(size_of::<CertificateHeader>() == 8);
