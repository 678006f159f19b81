//! The writer: an image with further sections.

use super::checksum;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use super::image::{SECTION_HEADER, SIZE_OF_IMAGE};
use super::{Error, Image};
use crate::le;

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

/// Gives `image` with these sections behind its own, loaded behind them as well, with its checksum. Symbols and whatever
/// else stands behind the last section are not loaded by anything and are left out. The length is a multiple of 512.
pub fn append(image: &[u8], additions: &[NewSection]) -> Result<Vec<u8>, Error> {
    let parsed = Image::parse(image)?;
    check(image, &parsed, additions)?;
    let mut out = Vec::with_capacity(image.len() + additions.iter().map(|one| one.data.len() + PAGE as usize).sum::<usize>());
    out.extend_from_slice(&image[..data_end(&parsed, image.len())]);
    pad(&mut out, parsed.file_alignment);
    let mut address = parsed.sections.iter().map(memory_end).max().unwrap_or(u64::from(parsed.size_of_headers));
    for (index, addition) in additions.iter().enumerate() {
        address = address.next_multiple_of(u64::from(parsed.section_alignment.max(PAGE)));
        let offset = out.len();
        out.extend_from_slice(addition.data);
        pad(&mut out, parsed.file_alignment);
        let header = header(addition, address, offset, out.len() - offset)?;
        le::put(&mut out, parsed.table_end() + index * SECTION_HEADER, header);
        address += memory_size(addition);
    }
    finish(&mut out, &parsed, additions.len(), address)?;
    Ok(out)
}

/// Refuses an image that cannot be extended and sections that it cannot take.
fn check(image: &[u8], parsed: &Image, additions: &[NewSection]) -> Result<(), Error> {
    if parsed.certificates.is_some() {
        return Err(Error::Signed);
    }
    for (alignment, most) in [(parsed.file_alignment, 1 << 16), (parsed.section_alignment, 1 << 30)] {
        if !alignment.is_power_of_two() || !(512..=most).contains(&alignment) {
            return Err(Error::Alignment(alignment));
        }
    }
    let mut names: Vec<&str> = parsed.sections.iter().map(|section| &*section.name).collect();
    // A name that begins with a slash is an offset into the string table, which is left out.
    if let Some(name) = names.iter().find(|name| name.starts_with('/')) {
        return Err(Error::SectionName((*name).to_owned()));
    }
    for NewSection { name, .. } in additions {
        if !(1..=8).contains(&name.len()) || name.contains(['\0', '/']) {
            return Err(Error::SectionName((*name).to_owned()));
        }
        if names.contains(name) {
            return Err(Error::SectionExists((*name).to_owned()));
        }
        names.push(name);
    }
    let with_data = parsed.sections.iter().filter(|section| section.raw_size() > 0);
    let room = with_data.map(|section| section.offset).chain([parsed.size_of_headers]).min().unwrap_or(0) as usize;
    // What stands behind the table up to the data is padding: zeros on x86_64, instructions that do nothing on aarch64.
    let needed = parsed.table_end() + additions.len() * SECTION_HEADER;
    if needed > room || needed > image.len() || parsed.sections.len() + additions.len() > 96 {
        return Err(Error::NoRoom(additions.len()));
    }
    Ok(())
}

/// Where the headers and the data of the last section end in the file, which is `length` bytes long.
fn data_end(parsed: &Image, length: usize) -> usize {
    let with_data = parsed.sections.iter().filter(|section| section.raw_size() > 0);
    let ends = with_data.map(|section| section.offset as usize + section.raw_size() as usize);
    ends.chain([length.min(parsed.size_of_headers as usize)]).max().unwrap_or(0)
}

fn memory_end(section: &super::Section) -> u64 {
    u64::from(section.address) + u64::from(section.virtual_size.max(section.raw_size()))
}

fn memory_size(addition: &NewSection) -> u64 {
    u64::from(addition.virtual_size).max(addition.data.len() as u64)
}

fn pad(out: &mut Vec<u8>, alignment: u32) {
    out.resize(out.len().next_multiple_of(alignment as usize), 0);
}

/// One entry of the section table.
fn header(addition: &NewSection, address: u64, offset: usize, raw_size: usize) -> Result<[u8; SECTION_HEADER], Error> {
    let short = |value: u64| u32::try_from(value).map_err(|_| Error::TooLarge);
    let mut header = [0; SECTION_HEADER];
    header[..addition.name.len()].copy_from_slice(addition.name.as_bytes());
    le::put(&mut header, 8, short(memory_size(addition))?.to_le_bytes());
    le::put(&mut header, 12, short(address)?.to_le_bytes());
    le::put(&mut header, 16, short(raw_size as u64)?.to_le_bytes());
    le::put(&mut header, 20, short(offset as u64)?.to_le_bytes());
    le::put(&mut header, 36, addition.characteristics.to_le_bytes());
    Ok(header)
}

/// Writes the fields of the headers that the new sections change.
fn finish(out: &mut [u8], parsed: &Image, added: usize, memory_end: u64) -> Result<(), Error> {
    let sections = (parsed.sections.len() + added) as u16;
    le::put(out, parsed.coff + 2, sections.to_le_bytes());
    // Offset and number of the symbols, which are left out.
    le::put(out, parsed.coff + 8, [0; 8]);
    let size = memory_end.next_multiple_of(u64::from(parsed.section_alignment));
    let size = u32::try_from(size).map_err(|_| Error::TooLarge)?;
    le::put(out, parsed.optional + SIZE_OF_IMAGE, size.to_le_bytes());
    checksum::renew(out, parsed.checksum_offset());
    Ok(())
}
