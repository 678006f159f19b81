//! The writer: an image with further sections.

use super::checksum;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use super::image::{SECTION_HEADER, SIZE_OF_IMAGE};
use super::{Error, Headers, Image, SectionHeader};
use crate::le;
use core::ops::Range;

/// Sections start on a page, so that what they hold can be used where it is loaded.
const PAGE: u32 = 4096;

/// A section to be added.
#[derive(Clone, Copy, Debug)]
pub struct NewSection<'a> {
    /// Its name, 1 to 8 bytes.
    pub name: &'a str,
    /// Its data, not empty.
    pub data: &'a [u8],
    /// Bytes that it takes in memory if that is more than the data.
    pub virtual_size: u32,
    /// What it may be used for (`IMAGE_SCN_…`).
    pub characteristics: u32,
}

/// A section to be added, whose data somebody else writes.
#[derive(Clone, Copy, Debug)]
pub struct Addition<'a> {
    /// Its name, 1 to 8 bytes.
    pub name: &'a str,
    /// Bytes of its data, not 0.
    pub size: u64,
    /// Bytes that it takes in memory if that is more than the data.
    pub virtual_size: u32,
    /// What it may be used for (`IMAGE_SCN_…`).
    pub characteristics: u32,
}

/// An image with further sections, whose data are still to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// All that stands before the data of the first new section. The checksum in it is 0.
    pub head: Vec<u8>,
    /// Where the data of each new section stand in the file. What is between them and behind the
    /// last one is zero.
    pub places: Vec<Range<u64>>,
    /// Bytes of the whole image.
    pub length: u64,
    /// Where its checksum stands: four bytes, little-endian, of what [`super::Checksum`] gives for
    /// the whole image.
    pub checksum: u64,
}

/// Gives `image` with these sections behind its own, loaded behind them as well, with its checksum.
/// Symbols and whatever else stands behind the last section are not loaded by anything and are left
/// out. The length is a multiple of 512.
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

/// What [`append`] does, for data that are too large to be in memory.
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
        le::put(&mut head, parsed.table_end() + index * SECTION_HEADER, header);
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
    for (alignment, most) in [(parsed.file_alignment, 1 << 16), (parsed.section_alignment, 1 << 30)]
    {
        if !alignment.is_power_of_two() || !(512..=most).contains(&alignment) {
            return Err(Error::Alignment(alignment));
        }
    }
    let mut names: Vec<&str> =
        parsed.section_headers.iter().map(|section| &*section.name).collect();
    // A name that begins with a slash is an offset into the string table, which is left out.
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
    // What stands behind the table up to the data is padding: zeros on x86_64, instructions that do
    // nothing on aarch64.
    let needed = parsed.table_end() + additions.len() * SECTION_HEADER;
    if needed > room || needed > image.len() || parsed.section_headers.len() + additions.len() > 96
    {
        return Err(Error::NoRoom(additions.len()));
    }
    Ok(())
}

/// Where the headers and the data of the last section end in the file, which is `length` bytes
/// long.
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

/// One entry of the section table.
fn header(
    addition: &Addition,
    address: u64,
    offset: u64,
    raw_size: u64,
) -> Result<[u8; SECTION_HEADER], Error> {
    let short = |value: u64| u32::try_from(value).map_err(|_| Error::TooLarge);
    let mut header = [0; SECTION_HEADER];
    header[..addition.name.len()].copy_from_slice(addition.name.as_bytes());
    le::put(&mut header, 8, short(memory_size(addition))?.to_le_bytes());
    le::put(&mut header, 12, short(address)?.to_le_bytes());
    le::put(&mut header, 16, short(raw_size)?.to_le_bytes());
    le::put(&mut header, 20, short(offset)?.to_le_bytes());
    le::put(&mut header, 36, addition.characteristics.to_le_bytes());
    Ok(header)
}

/// Writes the fields of the headers that the new sections change, and a checksum of zero.
fn finish(out: &mut [u8], parsed: &Headers, added: usize, memory_end: u64) -> Result<(), Error> {
    let sections = (parsed.section_headers.len() + added) as u16;
    le::put(out, parsed.coff + 2, sections.to_le_bytes());
    // Offset and number of the symbols, which are left out.
    le::put(out, parsed.coff + 8, [0; 8]);
    let size = memory_end.next_multiple_of(u64::from(parsed.section_alignment));
    let size = u32::try_from(size).map_err(|_| Error::TooLarge)?;
    le::put(out, parsed.optional + SIZE_OF_IMAGE, size.to_le_bytes());
    le::put(out, parsed.checksum_offset(), [0; 4]);
    Ok(())
}
