//! One entry of the partition table (UEFI 2.10, 5.3.3).

use alloc::string::String;
use alloc::vec::Vec;

use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ENTRY_SIZE, Error};

/// UTF-16 code units of an entry's name.
const NAME_UNITS: usize = 36;

/// An entry as it is stored. The name ends at a NUL or with the field.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Entry {
    type_guid: [u8; 16],
    guid: [u8; 16],
    first: U64,
    last: U64,
    attributes: U64,
    name: [U16; NAME_UNITS],
}

const _: () = assert!(size_of::<Entry>() == ENTRY_SIZE);

/// A partition: its sectors, identifiers and attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1 to 128: the index in the array plus one.
    pub number: u32,
    /// The type of its contents.
    pub type_guid: Uuid,
    /// Its unique identifier.
    pub guid: Uuid,
    /// Its first sector.
    pub first: u64,
    /// Its last sector.
    pub last: u64,
    /// The raw 64 attribute bits. The type defines the meaning of bits 48–63.
    pub attributes: u64,
    /// Its name: at most 36 UTF-16 code units, without NUL.
    pub name: String,
}

impl Partition {
    /// The number of its sectors.
    pub fn sectors(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Reads one entry; `None` if it is unused.
    pub(super) fn decode(number: u32, entry: &Entry) -> Result<Option<Self>, Error> {
        let type_guid = Uuid::from_bytes_le(entry.type_guid);
        if type_guid.is_nil() {
            return Ok(None);
        }
        let units: Vec<u16> =
            entry.name.iter().map(|unit| unit.get()).take_while(|unit| *unit != 0).collect();
        Ok(Some(Self {
            number,
            type_guid,
            guid: Uuid::from_bytes_le(entry.guid),
            first: entry.first.get(),
            last: entry.last.get(),
            attributes: entry.attributes.get(),
            name: String::from_utf16(&units).map_err(|_| Error::Name(number))?,
        }))
    }

    /// Returns the entry. The name must fit ([`Self::name_fits`]).
    pub(super) fn encode(&self) -> Entry {
        let mut name = [U16::ZERO; NAME_UNITS];
        for (stored, unit) in name.iter_mut().zip(self.name.encode_utf16()) {
            *stored = unit.into();
        }
        Entry {
            type_guid: self.type_guid.to_bytes_le(),
            guid: self.guid.to_bytes_le(),
            first: self.first.into(),
            last: self.last.into(),
            attributes: self.attributes.into(),
            name,
        }
    }

    /// Whether the name fits an entry and reads back unchanged.
    pub(super) fn name_fits(&self) -> bool {
        self.name.encode_utf16().count() <= NAME_UNITS && !self.name.contains('\0')
    }
}
