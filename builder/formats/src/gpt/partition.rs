//! One entry of the partition table (UEFI 2.10, 5.3.3).

use alloc::string::String;
use alloc::vec::Vec;

use uuid::Uuid;

use super::{ENTRY_SIZE, Error};
use crate::le;

/// UTF-16 code units that an entry has room for in its name.
const NAME_UNITS: usize = 36;
const NAME_OFFSET: usize = 56;

/// A partition: its place, its identifiers and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1 to 128: its place in the array.
    pub number: u32,
    /// What it holds.
    pub type_guid: Uuid,
    /// Which one it is.
    pub guid: Uuid,
    /// Its first sector.
    pub first: u64,
    /// Its last sector.
    pub last: u64,
    /// The raw 64 attribute bits. Bits 48–63 have a meaning of their own for each type.
    pub attributes: u64,
    /// Its name, at most 36 UTF-16 code units and without NUL.
    pub name: String,
}

impl Partition {
    /// The number of its sectors.
    pub fn sectors(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Reads one entry; `None` if it is unused.
    pub(super) fn decode(number: u32, entry: &[u8; ENTRY_SIZE]) -> Result<Option<Self>, Error> {
        let guid = |offset: usize| {
            let bytes =
                entry[offset..].first_chunk().expect("both GUIDs stand in the first 32 bytes");
            Uuid::from_bytes_le(*bytes)
        };
        let field =
            |offset| le::u64_at(entry, offset).expect("the three fields stand before the name");
        if guid(0).is_nil() {
            return Ok(None);
        }
        let units: Vec<u16> = entry[NAME_OFFSET..]
            .chunks_exact(2)
            .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
            .take_while(|unit| *unit != 0)
            .collect();
        Ok(Some(Self {
            number,
            type_guid: guid(0),
            guid: guid(16),
            first: field(32),
            last: field(40),
            attributes: field(48),
            name: String::from_utf16(&units).map_err(|_| Error::Name(number))?,
        }))
    }

    /// Writes the entry. The name must have been checked.
    pub(super) fn encode(&self, entry: &mut [u8]) {
        le::put(entry, 0, self.type_guid.to_bytes_le());
        le::put(entry, 16, self.guid.to_bytes_le());
        le::put(entry, 32, self.first.to_le_bytes());
        le::put(entry, 40, self.last.to_le_bytes());
        le::put(entry, 48, self.attributes.to_le_bytes());
        for (index, unit) in self.name.encode_utf16().enumerate() {
            le::put(entry, NAME_OFFSET + 2 * index, unit.to_le_bytes());
        }
    }

    /// Whether the name fits an entry and can be read back as it is.
    pub(super) fn name_fits(&self) -> bool {
        self.name.encode_utf16().count() <= NAME_UNITS && !self.name.contains('\0')
    }
}
