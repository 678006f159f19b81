//! The reader: headers and sections.

use super::Error;
use crate::le;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

/// Where the optional header stands behind the offset that the DOS header names: there are a
/// signature and the COFF header before it.
pub(super) const OPTIONAL: usize = 4 + 20;
/// Offsets within the optional header.
pub(super) const SECTION_ALIGNMENT: usize = 32;
pub(super) const FILE_ALIGNMENT: usize = 36;
pub(super) const SIZE_OF_IMAGE: usize = 56;
pub(super) const SIZE_OF_HEADERS: usize = 60;
pub(super) const CHECKSUM: usize = 64;
pub(super) const CHECKSUM_SIZE: usize = 4;
const SUBSYSTEM: usize = 68;
const DIRECTORY_COUNT: usize = 108;
/// Offset and size of the certificate table, four bytes each.
pub(super) const CERTIFICATE_DIRECTORY: usize = 112 + 4 * 8;
pub(super) const DIRECTORY_SIZE: usize = 8;
/// Bytes of one entry of the section table.
pub(super) const SECTION_HEADER: usize = 40;

/// A section as the table of sections has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionHeader {
    /// Its name, up to 8 bytes without padding.
    pub name: String,
    /// Where it is loaded, relative to the image's start.
    pub address: u32,
    /// Bytes that it takes in memory.
    pub virtual_size: u32,
    /// Where its data stand in the file.
    pub offset: u32,
    /// Bytes that its data take in the file, with padding.
    pub raw_size: u32,
    /// What it may be used for (`IMAGE_SCN_…`).
    pub characteristics: u32,
}

/// The headers of a PE32+ image, of which the rest need not be at hand.
#[derive(Clone, Debug)]
pub struct Headers {
    /// What it runs on: `0x8664` for x86_64, `0xaa64` for aarch64.
    pub machine: u16,
    /// What starts it: 10 is for firmware that starts a UEFI application.
    pub subsystem: u16,
    /// Bytes that the loaded image takes in memory.
    pub size_of_image: u32,
    /// Its sections in the order of the table.
    pub section_headers: Vec<SectionHeader>,
    pub(super) section_alignment: u32,
    pub(super) file_alignment: u32,
    pub(super) size_of_headers: u32,
    /// Where the COFF header, the optional header and the section table stand.
    pub(super) coff: usize,
    pub(super) optional: usize,
    pub(super) table: usize,
    /// Where offset and size of the certificate table stand, which not every header has room for.
    pub(super) certificate_directory: Option<usize>,
    /// Where the certificate table stands, if there is one.
    pub(super) certificates: Option<Range<usize>>,
}

impl Headers {
    /// Reads the headers of an image of `length` bytes from its beginning, and checks that every
    /// section lies within that length. Linkers put the headers into the first 4 KiB.
    ///
    /// # Errors
    /// It is no PE32+ image, its headers go on behind `beginning`, or they name what is not within
    /// the image.
    pub fn parse(beginning: &[u8], length: u64) -> Result<Self, Error> {
        if !beginning.starts_with(b"MZ") {
            return Err(Error::NotPe);
        }
        let signature = le::u32_at(beginning, 0x3C).ok_or(Error::Truncated("DOS header"))? as usize;
        if !beginning.get(signature..).is_some_and(|rest| rest.starts_with(b"PE\0\0")) {
            return Err(Error::NotPe);
        }
        let coff = signature + 4;
        let short = |offset| le::u16_at(beginning, offset).ok_or(Error::Truncated("header"));
        let optional = signature + OPTIONAL;
        let table = optional + usize::from(short(coff + 16)?);
        let header = beginning.get(optional..table).ok_or(Error::Truncated("optional header"))?;
        let field =
            |offset| le::u32_at(header, offset).ok_or(Error::Truncated("optional header's end"));
        match le::u16_at(header, 0) {
            Some(0x20B) => {}
            magic => return Err(Error::NotPe32Plus(magic.unwrap_or(0))),
        }
        let certificate_directory =
            (field(DIRECTORY_COUNT)? > 4).then_some(optional + CERTIFICATE_DIRECTORY);
        let certificates = match certificate_directory {
            Some(_) => certificates(
                length,
                field(CERTIFICATE_DIRECTORY)?,
                field(CERTIFICATE_DIRECTORY + 4)?,
            )?,
            None => None,
        };
        let sections = sections(beginning, length, table, usize::from(short(coff + 2)?))?;
        Ok(Self {
            machine: short(coff)?,
            subsystem: short(optional + SUBSYSTEM)?,
            size_of_image: field(SIZE_OF_IMAGE)?,
            section_headers: sections,
            section_alignment: field(SECTION_ALIGNMENT)?,
            file_alignment: field(FILE_ALIGNMENT)?,
            size_of_headers: field(SIZE_OF_HEADERS)?,
            coff,
            optional,
            table,
            certificate_directory,
            certificates,
        })
    }

    /// Where all that the headers speak of ends in the file: headers, data of sections, and
    /// certificate table.
    pub fn end(&self) -> u64 {
        let sections = self
            .section_headers
            .iter()
            .map(|section| u64::from(section.offset) + u64::from(section.raw_size));
        let certificates = self.certificates.iter().map(|table| table.end as u64);
        sections.chain(certificates).fold(u64::from(self.size_of_headers), u64::max)
    }

    /// Where its checksum stands.
    pub(super) fn checksum_offset(&self) -> usize {
        self.optional + CHECKSUM
    }

    /// Where the section table ends.
    pub(super) fn table_end(&self) -> usize {
        self.table + self.section_headers.len() * SECTION_HEADER
    }
}

/// A section of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    header: SectionHeader,
    /// What is in the file, with its padding.
    raw: &'a [u8],
}

impl<'a> Section<'a> {
    /// Its data: as many bytes as the file holds, without what only pads the file.
    pub fn data(&self) -> &'a [u8] {
        &self.raw[..self.raw.len().min(self.header.virtual_size as usize)]
    }
}

impl Deref for Section<'_> {
    type Target = SectionHeader;

    fn deref(&self) -> &SectionHeader {
        &self.header
    }
}

/// A PE32+ image. It stands for its headers.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    headers: Headers,
    /// Its sections in the order of the table.
    pub sections: Vec<Section<'a>>,
}

impl<'a> Image<'a> {
    /// Reads the headers and checks that every section lies within `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let headers = Headers::parse(bytes, bytes.len() as u64)?;
        let section = |header: &SectionHeader| {
            // A section without data, such as `.bss`, may name any offset.
            let raw = match header.raw_size {
                0 => Some(&[][..]),
                size => {
                    bytes.get(header.offset as usize..).and_then(|rest| rest.get(..size as usize))
                }
            };
            raw.map(|raw| Section { header: header.clone(), raw })
                .ok_or_else(|| Error::SectionData(header.name.clone()))
        };
        let sections = headers.section_headers.iter().map(section).collect::<Result<_, _>>()?;
        Ok(Self { headers, sections })
    }

    /// The section of this name, the first if there are several.
    pub fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }
}

impl Deref for Image<'_> {
    type Target = Headers;

    fn deref(&self) -> &Headers {
        &self.headers
    }
}

/// Where the certificate table of an image of `length` bytes stands.
fn certificates(length: u64, offset: u32, size: u32) -> Result<Option<Range<usize>>, Error> {
    match (size, u64::from(offset) + u64::from(size)) {
        (0, _) => Ok(None),
        (_, end) if end <= length => Ok(Some(offset as usize..end as usize)),
        (_, _) => Err(Error::Truncated("certificate table's end")),
    }
}

fn sections(
    beginning: &[u8],
    length: u64,
    table: usize,
    count: usize,
) -> Result<Vec<SectionHeader>, Error> {
    let headers = beginning
        .get(table..table + count * SECTION_HEADER)
        .ok_or(Error::Truncated("section table"))?;
    let (headers, _) = headers.as_chunks::<SECTION_HEADER>();
    headers.iter().map(|header| section(header, length)).collect()
}

fn section(header: &[u8; SECTION_HEADER], length: u64) -> Result<SectionHeader, Error> {
    let field = |offset| le::u32_at(header, offset).expect("each field stands within the 40 bytes");
    let name = header[..8].split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    let (raw_size, offset) = (field(16), field(20));
    if raw_size > 0 && u64::from(offset) + u64::from(raw_size) > length {
        return Err(Error::SectionData(name));
    }
    Ok(SectionHeader {
        name,
        address: field(12),
        virtual_size: field(8),
        offset,
        raw_size,
        characteristics: field(36),
    })
}
