//! The certificate table, which holds the signatures of an image ("The Attribute Certificate Table"
//! in Microsoft's PE format).

use alloc::vec::Vec;
use core::mem::offset_of;
use core::ops::Range;

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::raw::{
    CERTIFICATE_DIRECTORY, CertificateHeader, CoffHeader, DataDirectory, DosHeader, OptionalHeader,
    SIGNATURE,
};
use super::{Error, Headers, checksum};

/// Alignment of the table and of each entry in bytes.
const ALIGNMENT: usize = 8;

const HEADER: usize = size_of::<CertificateHeader>();
const DIRECTORY_SIZE: usize = size_of::<DataDirectory>();
const CHECKSUM_SIZE: usize = size_of::<U32>();

/// `WIN_CERT_REVISION_2_0`
const REVISION: u16 = 0x0200;

/// `WIN_CERT_TYPE_PKCS_SIGNED_DATA`
const PKCS_SIGNED_DATA: u16 = 0x0002;

/// The largest table in bytes. A signature has about 1,500.
const MAX_TABLE: usize = 64 << 10;

/// Returns the signatures of `image`, each a PKCS#7 `SignedData` and up to 7 bytes of padding.
///
/// # Errors
/// The table is not at the end of the file, holds something else, or is larger than 64 KiB.
pub fn certificates(image: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let Some(mut table) = table(length(image), &parse(image)?)?.map(|table| &image[table]) else {
        return Ok(Vec::new());
    };
    if table.len() > MAX_TABLE {
        return Err(Error::CertificateTable);
    }
    let mut found = Vec::new();
    while !table.is_empty() {
        let (header, _) =
            CertificateHeader::ref_from_prefix(table).map_err(|_| Error::CertificateTable)?;
        let length = header.length.get() as usize;
        let padded =
            length.checked_next_multiple_of(ALIGNMENT).filter(|padded| *padded <= table.len());
        let kind = (header.revision.get(), header.certificate_type.get());
        let (Some(padded), HEADER.., (REVISION, PKCS_SIGNED_DATA)) = (padded, length, kind) else {
            return Err(Error::CertificateTable);
        };
        found.push(&table[HEADER..length]);
        table = &table[padded..];
    }
    Ok(found)
}

/// Adds a PKCS#7 `SignedData` after the signatures of `image`, and updates its checksum. An
/// unsigned image is first padded with zeros to a multiple of 8 bytes, as its digest assumes.
///
/// # Errors
/// `image` is not a PE image, its header has no room for a certificate table, or it would be larger
/// than 4 GiB.
pub fn attach(image: &mut Vec<u8>, signed_data: &[u8]) -> Result<(), Error> {
    let attachment = attachment(&parse(image)?, length(image), signed_data)?;
    let Attachment { at, bytes, directory: (place, directory), checksum } = attachment;
    image.resize(at as usize, 0);
    image.extend(bytes);
    image[place as usize..][..DIRECTORY_SIZE].copy_from_slice(&directory);
    checksum::renew(image, checksum as usize);
    Ok(())
}

/// The changes that [`attach`] makes, for an image that is too large for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The offset of `bytes`. The bytes between the end of the image and this offset are zero.
    pub at: u64,
    /// The signature as a padded entry of the certificate table.
    pub bytes: Vec<u8>,
    /// The offset and the new bytes of the data directory.
    pub directory: (u64, [u8; DIRECTORY_SIZE]),
    /// The offset of the checksum, which the caller has to update.
    pub checksum: u64,
}

/// Returns the changes that [`attach`] makes to an image of `length` bytes with these headers.
///
/// # Errors
/// Those of [`attach`].
pub fn attachment(headers: &Headers, length: u64, signed_data: &[u8]) -> Result<Attachment, Error> {
    let directory = headers.certificate_directory.ok_or(Error::NoCertificateDirectory)?;
    let at = length.next_multiple_of(ALIGNMENT as u64);
    let start = table(length, headers)?.map_or(at, |table| table.start as u64);
    let field = |value: u64| u32::try_from(value).map(U32::new).map_err(|_| Error::TooLarge);
    let own = HEADER + signed_data.len();
    let header = CertificateHeader {
        length: field(own as u64)?,
        revision: REVISION.into(),
        certificate_type: PKCS_SIGNED_DATA.into(),
    };
    let mut bytes = [header.as_bytes(), signed_data].concat();
    bytes.resize(own.next_multiple_of(ALIGNMENT), 0);
    let end = field(at + bytes.len() as u64)?;
    let place = DataDirectory { offset: field(start)?, size: end - field(start)? };
    Ok(Attachment {
        at,
        bytes,
        directory: (directory as u64, zerocopy::transmute!(place)),
        checksum: headers.checksum_offset() as u64,
    })
}

/// Removes all signatures from `image`, and updates its checksum. The signed bytes remain, with
/// their padding. An image without signatures is padded too, so that an image and its signed form
/// give the same bytes even if the linker wrote neither padding nor checksum.
///
/// # Errors
/// `image` is not a PE image, or its certificate table is not at its end.
pub fn detach(image: &mut Vec<u8>) -> Result<(), Error> {
    let parsed = parse(image)?;
    let (table, directory, checksum) =
        (table(length(image), &parsed)?, parsed.certificate_directory, parsed.checksum_offset());
    let end = table.map_or(image.len().next_multiple_of(ALIGNMENT), |table| table.start);
    if let Some(directory) = directory {
        image.resize(end, 0);
        image[directory..][..DIRECTORY_SIZE].fill(0);
        checksum::renew(image, checksum);
    }
    Ok(())
}

/// Returns the bytes that a signature covers: all of `image` except its checksum, the data
/// directory of its certificate table, and that table.
///
/// # Errors
/// `image` is not a PE image, or some bytes belong to no section or to two, so that the digested
/// bytes are not the loaded bytes.
pub fn covered(image: &[u8]) -> Result<[Range<usize>; 3], Error> {
    covered_by(&parse(image)?, length(image))
}

/// Does the same for an image of `length` bytes with these headers.
///
/// # Errors
/// Those of [`covered`].
pub fn covered_by(parsed: &Headers, length: u64) -> Result<[Range<usize>; 3], Error> {
    let end = table(length, parsed)?.map_or(length as usize, |table| table.start);
    let mut sections: Vec<_> =
        parsed.section_headers.iter().filter(|section| section.raw_size > 0).collect();
    sections.sort_by_key(|section| section.offset);
    let mut covered = parsed.size_of_headers as usize;
    for section in sections {
        if section.offset as usize != covered {
            return Err(Error::Layout(section.name.clone()));
        }
        covered += section.raw_size as usize;
    }
    let directory = parsed.certificate_directory.ok_or(Error::NoCertificateDirectory)?;
    if covered > end
        || directory + DIRECTORY_SIZE > parsed.table
        || parsed.table_end() > parsed.size_of_headers as usize
    {
        return Err(Error::CertificateTable);
    }
    Ok(all_but(parsed.checksum_offset(), directory, end))
}

/// Returns the bytes that a signature covers, from the beginning of an image alone, so that they
/// can be digested before the rest arrives. The result is valid only if [`covered`] returns the
/// same for the whole image.
pub fn covered_ahead(beginning: &[u8]) -> Option<[Range<usize>; 3]> {
    let (dos, _) = DosHeader::ref_from_prefix(beginning).ok()?;
    let optional = dos.pe_offset.get() as usize + SIGNATURE.len() + size_of::<CoffHeader>();
    let place = optional + CERTIFICATE_DIRECTORY;
    let (directory, _) = DataDirectory::ref_from_prefix(beginning.get(place..)?).ok()?;
    let checksum = optional + offset_of!(OptionalHeader, checksum);
    Some(all_but(checksum, place, directory.offset.get() as usize))
}

/// All bytes before `end` except the two fields.
fn all_but(checksum: usize, directory: usize, end: usize) -> [Range<usize>; 3] {
    [0..checksum, checksum + CHECKSUM_SIZE..directory, directory + DIRECTORY_SIZE..end]
}

/// Returns the place of the table, which must be at the end of a file of `length` bytes.
fn table(length: u64, parsed: &Headers) -> Result<Option<Range<usize>>, Error> {
    match &parsed.certificates {
        Some(table) if table.end as u64 != length || table.start % ALIGNMENT != 0 => {
            Err(Error::CertificateTable)
        }
        table => Ok(table.clone()),
    }
}

fn parse(image: &[u8]) -> Result<Headers, Error> {
    Headers::parse(image, length(image))
}

fn length(image: &[u8]) -> u64 {
    image.len() as u64
}
