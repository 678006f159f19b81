//! The header of one copy of the partition table (UEFI 2.10, 5.3.2).

use alloc::vec;
use alloc::vec::Vec;

use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ENTRIES, ENTRY_SIZE, Error};

const SIGNATURE: [u8; 8] = *b"EFI PART";
const REVISION: u32 = 0x0001_0000;

/// The header as it is stored, at the start of a sector; the rest of the sector is zero.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    signature: [u8; 8],
    revision: U32,
    header_size: U32,
    header_crc: U32,
    reserved: U32,
    own: U64,
    other: U64,
    first_usable: U64,
    last_usable: U64,
    disk_guid: [u8; 16],
    array: U64,
    entries: U32,
    entry_size: U32,
    array_crc: U32,
}

const SIZE: usize = size_of::<RawHeader>();
const _: () = assert!(SIZE == 92);

impl RawHeader {
    /// Computes the CRC-32 of the header with a zero in place of its own checksum.
    fn checksum(&self) -> u32 {
        crc32fast::hash(RawHeader { header_crc: U32::ZERO, ..*self }.as_bytes())
    }
}

/// A header of revision 1.0, for an array of 128 entries of 128 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The sector of this header.
    pub own: u64,
    /// The sector of the other copy's header.
    pub other: u64,
    pub first_usable: u64,
    pub last_usable: u64,
    pub disk_guid: Uuid,
    /// The first sector of the array of entries.
    pub array: u64,
    pub array_crc: u32,
}

impl Header {
    /// Reads the header in sector `own`.
    pub fn decode(sector: &[u8], own: u64) -> Result<Self, Error> {
        let (raw, _) = RawHeader::ref_from_prefix(sector).map_err(|_| Error::NoSignature)?;
        if raw.signature != SIGNATURE {
            return Err(Error::NoSignature);
        }
        if raw.revision != REVISION || raw.header_size != SIZE as u32 {
            return Err(Error::Revision);
        }
        if raw.header_crc != raw.checksum() {
            return Err(Error::HeaderChecksum);
        }
        if raw.own != own {
            return Err(Error::WrongSector { found: raw.own.get(), expected: own });
        }
        let (entries, size) = (raw.entries.get(), raw.entry_size.get());
        if entries as usize != ENTRIES || size as usize != ENTRY_SIZE {
            return Err(Error::Array { entries, size });
        }
        Ok(Self {
            own,
            other: raw.other.get(),
            first_usable: raw.first_usable.get(),
            last_usable: raw.last_usable.get(),
            disk_guid: Uuid::from_bytes_le(raw.disk_guid),
            array: raw.array.get(),
            array_crc: raw.array_crc.get(),
        })
    }

    /// Returns the whole sector with this header.
    pub fn encode(&self, sector_size: u64) -> Vec<u8> {
        let mut raw = RawHeader {
            signature: SIGNATURE,
            revision: REVISION.into(),
            header_size: (SIZE as u32).into(),
            header_crc: U32::ZERO,
            reserved: U32::ZERO,
            own: self.own.into(),
            other: self.other.into(),
            first_usable: self.first_usable.into(),
            last_usable: self.last_usable.into(),
            disk_guid: self.disk_guid.to_bytes_le(),
            array: self.array.into(),
            entries: (ENTRIES as u32).into(),
            entry_size: (ENTRY_SIZE as u32).into(),
            array_crc: self.array_crc.into(),
        };
        raw.header_crc = raw.checksum().into();
        let mut sector = vec![0; sector_size as usize];
        sector[..SIZE].copy_from_slice(raw.as_bytes());
        sector
    }
}
