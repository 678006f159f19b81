//! The names of Rock Ridge (IEEE P1282), in the system use fields (IEEE P1281) of ISO 9660.

use std::io::{Read, Seek};

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::iso9660::Both32;
use super::{Error, read_at};

/// Bytes of a block of the volume.
const BLOCK: u64 = 2048;
/// The maximum number of areas that continue a field.
const MAX_AREAS: usize = 4;
/// The longest name that Linux accepts, in bytes.
const MAX_NAME: usize = 255;

/// The header of an entry of a system use field.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    signature: [u8; 2],
    length: u8,
    version: u8,
}

const HEADER: usize = size_of::<Header>();

/// Where a field continues.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Area {
    block: Both32,
    offset: Both32,
    length: Both32,
}

/// The attributes of an entry.
#[derive(Default)]
pub(super) struct Attributes {
    /// Its name.
    pub name: Option<Vec<u8>>,
    pub is_link: bool,
    pub is_compressed: bool,
}

/// A system use field.
pub(super) struct SystemUse<'a> {
    bytes: &'a [u8],
}

impl<'a> SystemUse<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        SystemUse { bytes }
    }

    /// The bytes before the fields of all other entries, if this field, that of the root, says that
    /// there are such fields.
    pub fn skipped(&self) -> Option<usize> {
        let (header, body, _) = split(self.bytes)?;
        match (header.signature, body) {
            ([b'S', b'P'], [0xBE, 0xEF, skipped, ..]) => Some(usize::from(*skipped)),
            _ => None,
        }
    }

    /// Reads the field, and the areas on the volume in which it continues.
    pub fn attributes(&self, source: &mut (impl Read + Seek)) -> Result<Attributes, Error> {
        let mut attributes = Attributes::default();
        let mut area = attributes.read(self.bytes);
        for _ in 0..MAX_AREAS {
            let Some(Area { block, offset, length }) = area else { return Ok(attributes) };
            let [block, offset, length] =
                [block, offset, length].map(|number| u64::from(number.little.get()));
            if offset + length > BLOCK {
                return Err(Error::Damaged("the end of a name"));
            }
            let what = "the end of a name";
            let bytes = read_at(source, block * BLOCK + offset, length as usize, what)?;
            area = attributes.read(&bytes);
        }
        Err(Error::Damaged("the end of a name"))
    }
}

impl Attributes {
    /// Reads the entries of an area, and returns the area that continues it.
    fn read(&mut self, mut bytes: &[u8]) -> Option<Area> {
        let mut next = None;
        while let Some((header, body, rest)) = split(bytes) {
            match &header.signature {
                b"NM" => {
                    let name = self.name.get_or_insert_default();
                    // The first byte has flags: the name may continue, or be `.` or `..`.
                    name.extend_from_slice(body.get(1..).unwrap_or_default());
                    name.truncate(MAX_NAME + 1);
                }
                b"SL" => self.is_link = true,
                b"ZF" => self.is_compressed = true,
                b"CE" => next = Area::read_from_prefix(body).ok().map(|(area, _)| area),
                b"ST" => return next,
                _ => {}
            }
            bytes = rest;
        }
        next
    }
}

/// The first entry: its header, its body, and what follows it.
fn split(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let (header, _) = Header::read_from_prefix(bytes).ok()?;
    let length = usize::from(header.length);
    (length >= HEADER && header.version == 1 && length <= bytes.len())
        .then(|| (header, &bytes[HEADER..length], &bytes[length..]))
}
