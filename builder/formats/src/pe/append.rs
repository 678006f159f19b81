//! The writer: an image with additional sections.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::ops::Range;

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::raw::{CoffHeader, OptionalHeader, SectionEntry};
use super::{Error, Headers, Image, SectionHeader, checksum};

/// Sections start on a page, so that their contents can be used where they are loaded.
const PAGE: u32 = 4096;
/// The largest number of sections that Windows loads.
const MAX_SECTIONS: usize = 96;

/// A section to be added.
#[derive(Clone, Copy, Debug)]
pub struct NewSection<'a> {
    /// Its name, 1 to 8 bytes.
    pub name: &'a str,
    /// Its data, not empty.
    pub data: &'a [u8],
    /// Bytes in memory, if that is more than the data.
    pub virtual_size: u32,
    /// Its `IMAGE_SCN_…` flags.
    pub characteristics: u32,
}

/// A section to be added, whose data the caller writes.
#[derive(Clone, Copy, Debug)]
pub struct Addition<'a> {
    /// Its name, 1 to 8 bytes.
    pub name: &'a str,
    /// Bytes of its data, not 0.
    pub size: u64,
    /// Bytes in memory, if that is more than the data.
    pub virtual_size: u32,
    /// Its `IMAGE_SCN_…` flags.
    pub characteristics: u32,
}

/// An image with additional sections, whose data are still to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// All bytes before the data of the first new section, with a checksum of 0.
    pub head: Vec<u8>,
    /// The place of each new section's data in the file. The bytes between and after them are zero.
    pub places: Vec<Range<u64>>,
    /// Bytes of the whole image.
    pub length: u64,
    /// The offset of the checksum: the result of [`super::Checksum`] for the whole image, four
    /// bytes, little-endian.
    pub checksum: u64,
}

/// Returns `image` with these sections after its own, in the file and in memory, and with its
/// checksum. Symbols and other bytes after the last section are never loaded and are left out. The
/// length is a multiple of 512.
pub fn append(image: &[u8], additions: &[NewSection]) -> Result<Vec<u8>, Error> {
    let sizes = additions.iter().map(|one| Addition {
        name: one.name,
        size: one.data.len() as u64,
        virtual_size: one.virtual_size,
        characteristics: one.characteristics,
    });
    let Extended { head: mut out, places, length, checksum } =
        extend(image, &sizes.collect::<Vec<_>>())?;
    out.reserve_exact(length as usize - out.len());
    for (addition, place) in additions.iter().zip(places) {
        out.resize(place.start as usize, 0);
        out.extend_from_slice(addition.data);
    }
    out.resize(length as usize, 0);
    checksum::renew(&mut out, checksum as usize);
    Ok(out)
}

/// Does what [`append`] does, for data that are too large for memory.
///
/// # Errors
/// `image` cannot take these sections.
pub fn extend(image: &[u8], additions: &[Addition]) -> Result<Extended, Error> {
    let parsed = Image::parse(image)?;
    check(image, &parsed, additions)?;
    let mut head = image[..data_end(&parsed, image.len())].to_vec();
    head.resize(head.len().next_multiple_of(parsed.file_alignment as usize), 0);
    let mut address = parsed
        .section_headers
        .iter()
        .map(memory_end)
        .max()
        .unwrap_or(u64::from(parsed.size_of_headers));
    let (mut places, mut length) = (Vec::new(), head.len() as u64);
    for (index, addition) in additions.iter().enumerate() {
        address = address.next_multiple_of(u64::from(parsed.section_alignment.max(PAGE)));
        let place = length..length.checked_add(addition.size).ok_or(Error::TooLarge)?;
        length = place
            .end
            .checked_next_multiple_of(u64::from(parsed.file_alignment))
            .ok_or(Error::TooLarge)?;
        let header = header(addition, address, place.start, length - place.start)?;
        let entry = parsed.table_end() + index * size_of::<SectionEntry>();
        head[entry..][..size_of::<SectionEntry>()].copy_from_slice(header.as_bytes());
        address += memory_size(addition);
        places.push(place);
    }
    finish(&mut head, &parsed, additions.len(), address)?;
    Ok(Extended { head, places, length, checksum: parsed.checksum_offset() as u64 })
}

/// Refuses an image that cannot be extended and sections that it cannot take.
fn check(image: &[u8], parsed: &Headers, additions: &[Addition]) -> Result<(), Error> {
    if parsed.certificates.is_some() {
        return Err(Error::Signed);
    }
    for (alignment, max) in [(parsed.file_alignment, 1 << 16), (parsed.section_alignment, 1 << 30)]
    {
        if !alignment.is_power_of_two() || !(512..=max).contains(&alignment) {
            return Err(Error::Alignment(alignment));
        }
    }
    let mut names: Vec<&str> =
        parsed.section_headers.iter().map(|section| &*section.name).collect();
    // A name that begins with a slash is an offset into the string table, which `append` drops.
    if let Some(name) = names.iter().find(|name| name.starts_with('/')) {
        return Err(Error::SectionName((*name).to_owned()));
    }
    for Addition { name, .. } in additions {
        if !(1..=8).contains(&name.len()) || name.contains(['\0', '/']) {
            return Err(Error::SectionName((*name).to_owned()));
        }
        if names.contains(name) {
            return Err(Error::SectionExists((*name).to_owned()));
        }
        names.push(name);
    }
    let with_data = parsed.section_headers.iter().filter(|section| section.raw_size > 0);
    let room =
        with_data.map(|section| section.offset).chain([parsed.size_of_headers]).min().unwrap_or(0)
            as usize;
    // Between the table and the data is padding: zeros on x86_64, no-op instructions on aarch64.
    let needed = parsed.table_end() + additions.len() * size_of::<SectionEntry>();
    let sections = parsed.section_headers.len() + additions.len();
    if needed > room || needed > image.len() || sections > MAX_SECTIONS {
        return Err(Error::NoRoom(additions.len()));
    }
    Ok(())
}

/// Returns the end of the headers and of the last section's data in a file of `length` bytes.
fn data_end(parsed: &Headers, length: usize) -> usize {
    let with_data = parsed.section_headers.iter().filter(|section| section.raw_size > 0);
    let ends = with_data.map(|section| section.offset as usize + section.raw_size as usize);
    ends.chain([length.min(parsed.size_of_headers as usize)]).max().unwrap_or(0)
}

fn memory_end(section: &SectionHeader) -> u64 {
    u64::from(section.address) + u64::from(section.virtual_size.max(section.raw_size))
}

fn memory_size(addition: &Addition) -> u64 {
    u64::from(addition.virtual_size).max(addition.size)
}

/// Returns a section's entry of the section table.
fn header(
    addition: &Addition,
    address: u64,
    offset: u64,
    raw_size: u64,
) -> Result<SectionEntry, Error> {
    let field = |value: u64| u32::try_from(value).map(U32::new).map_err(|_| Error::TooLarge);
    let mut name = [0; 8];
    name[..addition.name.len()].copy_from_slice(addition.name.as_bytes());
    Ok(SectionEntry {
        name,
        virtual_size: field(memory_size(addition))?,
        virtual_address: field(address)?,
        size_of_raw_data: field(raw_size)?,
        pointer_to_raw_data: field(offset)?,
        relocations_and_line_numbers: [U32::ZERO; 3],
        characteristics: addition.characteristics.into(),
    })
}

/// Updates the headers for the new sections, with a checksum of zero and without symbols.
fn finish(out: &mut [u8], parsed: &Headers, added: usize, memory_end: u64) -> Result<(), Error> {
    let size = memory_end.next_multiple_of(u64::from(parsed.section_alignment));
    let size = u32::try_from(size).map_err(|_| Error::TooLarge)?;
    let (coff, rest) = CoffHeader::mut_from_prefix(&mut out[parsed.coff..])
        .map_err(|_| Error::Truncated("header"))?;
    coff.number_of_sections = ((parsed.section_headers.len() + added) as u16).into();
    coff.pointer_to_symbol_table = U32::ZERO;
    coff.number_of_symbols = U32::ZERO;
    let (optional, _) =
        OptionalHeader::mut_from_prefix(rest).map_err(|_| Error::Truncated("optional header"))?;
    optional.size_of_image = size.into();
    optional.checksum = U32::ZERO;
    Ok(())
}
