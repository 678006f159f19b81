//! The header of one copy of the partition table (UEFI 2.10, 5.3.2).

use alloc::vec;
use alloc::vec::Vec;

use uuid::Uuid;

use super::{ENTRIES, ENTRY_SIZE, Error};
use crate::le;

const SIGNATURE: &[u8; 8] = b"EFI PART";
const REVISION: u32 = 0x0001_0000;
/// Bytes of a header of this revision.
const SIZE: usize = 92;

/// One header, whose reserved fields are zero and whose array has 128 entries of 128 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The sector in which this header stands.
    pub own: u64,
    /// The sector in which the other copy's header stands.
    pub other: u64,
    pub first_usable: u64,
    pub last_usable: u64,
    pub disk_guid: Uuid,
    /// The first sector of the array of entries.
    pub array: u64,
    pub array_crc: u32,
}

impl Header {
    /// Reads the header that stands in sector `own`.
    pub fn decode(sector: &[u8], own: u64) -> Result<Self, Error> {
        let header = sector.get(..SIZE).ok_or(Error::NoSignature)?;
        if !header.starts_with(SIGNATURE) {
            return Err(Error::NoSignature);
        }
        let short =
            |offset| le::u32_at(header, offset).expect("each field stands within the 92 bytes");
        let long =
            |offset| le::u64_at(header, offset).expect("each field stands within the 92 bytes");
        if short(8) != REVISION || short(12) as usize != SIZE {
            return Err(Error::Revision);
        }
        if short(16) != crc(header) {
            return Err(Error::HeaderChecksum);
        }
        if long(24) != own {
            return Err(Error::WrongSector { found: long(24), expected: own });
        }
        if short(80) as usize != ENTRIES || short(84) as usize != ENTRY_SIZE {
            return Err(Error::Array { entries: short(80), size: short(84) });
        }
        let guid = header[56..].first_chunk().expect("the GUID stands within the 92 bytes");
        Ok(Self {
            own,
            other: long(32),
            first_usable: long(40),
            last_usable: long(48),
            disk_guid: Uuid::from_bytes_le(*guid),
            array: long(72),
            array_crc: short(88),
        })
    }

    /// Writes the header as a whole sector.
    pub fn encode(&self, sector_size: u64) -> Vec<u8> {
        let mut sector = vec![0; sector_size as usize];
        sector[..8].copy_from_slice(SIGNATURE);
        le::put(&mut sector, 8, REVISION.to_le_bytes());
        le::put(&mut sector, 12, (SIZE as u32).to_le_bytes());
        le::put(&mut sector, 24, self.own.to_le_bytes());
        le::put(&mut sector, 32, self.other.to_le_bytes());
        le::put(&mut sector, 40, self.first_usable.to_le_bytes());
        le::put(&mut sector, 48, self.last_usable.to_le_bytes());
        le::put(&mut sector, 56, self.disk_guid.to_bytes_le());
        le::put(&mut sector, 72, self.array.to_le_bytes());
        le::put(&mut sector, 80, (ENTRIES as u32).to_le_bytes());
        le::put(&mut sector, 84, (ENTRY_SIZE as u32).to_le_bytes());
        le::put(&mut sector, 88, self.array_crc.to_le_bytes());
        let crc = crc(&sector[..SIZE]);
        le::put(&mut sector, 16, crc.to_le_bytes());
        sector
    }
}

/// The checksum of a header, which is taken with its own field as zero.
fn crc(header: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..16]);
    hasher.update(&[0; 4]);
    hasher.update(&header[20..]);
    hasher.finalize()
}
