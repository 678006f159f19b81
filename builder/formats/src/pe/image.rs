//! The reader: headers and sections.

use alloc::string::String;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::ops::{Deref, Range};

use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::U16;

use super::Error;
use super::raw::{
    CERTIFICATE_DIRECTORY, CoffHeader, DataDirectory, DosHeader, OptionalHeader, PE32_PLUS,
    SIGNATURE, SectionEntry,
};

/// A section, as the section table describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionHeader {
    /// Its name, up to 8 bytes without padding.
    pub name: String,
    /// The address at which it is loaded, relative to the start of the image.
    pub address: u32,
    /// Bytes in memory.
    pub virtual_size: u32,
    /// The offset of its data in the file.
    pub offset: u32,
    /// Bytes of its data in the file, with padding.
    pub raw_size: u32,
    /// Its `IMAGE_SCN_…` flags.
    pub characteristics: u32,
}

/// The headers of a PE32+ image. They can be read without the rest of the image.
#[derive(Clone, Debug)]
pub struct Headers {
    /// The architecture: `0x8664` for x86_64, `0xaa64` for aarch64.
    pub machine: u16,
    /// The environment: 10 is a UEFI application.
    pub subsystem: u16,
    /// Bytes of the loaded image in memory.
    pub size_of_image: u32,
    /// Its sections in the order of the table.
    pub section_headers: Vec<SectionHeader>,
    pub(super) section_alignment: u32,
    pub(super) file_alignment: u32,
    pub(super) size_of_headers: u32,
    /// The offsets of the COFF header, the optional header and the section table.
    pub(super) coff: usize,
    pub(super) optional: usize,
    pub(super) table: usize,
    /// The offset of the data directory with the certificate table's place, if the header has one.
    pub(super) certificate_directory: Option<usize>,
    /// The place of the certificate table, if there is one.
    pub(super) certificates: Option<Range<usize>>,
}

impl Headers {
    /// Reads the headers of an image of `length` bytes from its beginning, and checks that every
    /// section is within that length. Linkers put the headers into the first 4 KiB.
    ///
    /// # Errors
    /// It is not a PE32+ image, `beginning` does not hold all headers, or they refer to bytes
    /// outside the image.
    pub fn parse(beginning: &[u8], length: u64) -> Result<Self, Error> {
        if !beginning.starts_with(b"MZ") {
            return Err(Error::NotPe);
        }
        let (dos, _) =
            DosHeader::ref_from_prefix(beginning).map_err(|_| Error::Truncated("DOS header"))?;
        let signature = dos.pe_offset.get() as usize;
        if !beginning.get(signature..).is_some_and(|rest| rest.starts_with(&SIGNATURE)) {
            return Err(Error::NotPe);
        }
        let coff = signature + SIGNATURE.len();
        let (coff_header, _) = CoffHeader::ref_from_prefix(&beginning[coff..])
            .map_err(|_| Error::Truncated("header"))?;
        let optional = coff + size_of::<CoffHeader>();
        let table = optional + usize::from(coff_header.size_of_optional_header.get());
        let header = beginning.get(optional..table).ok_or(Error::Truncated("optional header"))?;
        let magic = U16::ref_from_prefix(header).map_or(0, |(magic, _)| magic.get());
        if magic != PE32_PLUS {
            return Err(Error::NotPe32Plus(magic));
        }
        let too_short = || Error::Truncated("optional header's end");
        let (fields, _) = OptionalHeader::ref_from_prefix(header).map_err(|_| too_short())?;
        let mut certificate_directory = None;
        let mut certificates = None;
        if fields.number_of_data_directories > 4 {
            let rest = header.get(CERTIFICATE_DIRECTORY..).ok_or_else(too_short)?;
            let (directory, _) = DataDirectory::ref_from_prefix(rest).map_err(|_| too_short())?;
            certificate_directory = Some(optional + CERTIFICATE_DIRECTORY);
            certificates = certificate_table(length, directory)?;
        }
        let count = usize::from(coff_header.number_of_sections.get());
        Ok(Self {
            machine: coff_header.machine.get(),
            subsystem: fields.subsystem.get(),
            size_of_image: fields.size_of_image.get(),
            section_headers: sections(beginning, length, table, count)?,
            section_alignment: fields.section_alignment.get(),
            file_alignment: fields.file_alignment.get(),
            size_of_headers: fields.size_of_headers.get(),
            coff,
            optional,
            table,
            certificate_directory,
            certificates,
        })
    }

    /// The end of everything that the headers refer to: headers, section data and certificate
    /// table.
    pub fn end(&self) -> u64 {
        let sections = self
            .section_headers
            .iter()
            .map(|section| u64::from(section.offset) + u64::from(section.raw_size));
        let certificates = self.certificates.iter().map(|table| table.end as u64);
        sections.chain(certificates).fold(u64::from(self.size_of_headers), u64::max)
    }

    /// The offset of its checksum.
    pub(super) fn checksum_offset(&self) -> usize {
        self.optional + offset_of!(OptionalHeader, checksum)
    }

    /// The offset of the end of the section table.
    pub(super) fn table_end(&self) -> usize {
        self.table + self.section_headers.len() * size_of::<SectionEntry>()
    }
}

/// A section of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    header: SectionHeader,
    /// Its bytes in the file, with padding.
    raw: &'a [u8],
}

impl<'a> Section<'a> {
    /// Its data in the file, without padding.
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

/// A PE32+ image. It dereferences to its headers.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    headers: Headers,
    /// Its sections in the order of the table.
    pub sections: Vec<Section<'a>>,
}

impl<'a> Image<'a> {
    /// Reads the headers and checks that every section is within `bytes`.
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

/// Returns the place of the certificate table of an image of `length` bytes, if it has one.
fn certificate_table(
    length: u64,
    directory: &DataDirectory,
) -> Result<Option<Range<usize>>, Error> {
    let (offset, size) = (directory.offset.get(), directory.size.get());
    match (size, u64::from(offset) + u64::from(size)) {
        (0, _) => Ok(None),
        (_, end) if end <= length => Ok(Some(offset as usize..end as usize)),
        (_, _) => Err(Error::Truncated("certificate table's end")),
    }
}

/// Reads the section table at offset `table`, and checks that the data are within `length`.
fn sections(
    beginning: &[u8],
    length: u64,
    table: usize,
    count: usize,
) -> Result<Vec<SectionHeader>, Error> {
    let (entries, _) = beginning
        .get(table..)
        .and_then(|rest| <[SectionEntry]>::ref_from_prefix_with_elems(rest, count).ok())
        .ok_or(Error::Truncated("section table"))?;
    entries.iter().map(|entry| section(entry, length)).collect()
}

fn section(entry: &SectionEntry, length: u64) -> Result<SectionHeader, Error> {
    let name = entry.name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    let (offset, raw_size) = (entry.pointer_to_raw_data.get(), entry.size_of_raw_data.get());
    if raw_size > 0 && u64::from(offset) + u64::from(raw_size) > length {
        return Err(Error::SectionData(name));
    }
    Ok(SectionHeader {
        name,
        address: entry.virtual_address.get(),
        virtual_size: entry.virtual_size.get(),
        offset,
        raw_size,
        characteristics: entry.characteristics.get(),
    })
}
