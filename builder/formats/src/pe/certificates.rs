//! The certificate table, in which the signatures of an image stand ("The Attribute Certificate
//! Table" of Microsoft's PE format).

use super::image::{CERTIFICATE_DIRECTORY, CHECKSUM, CHECKSUM_SIZE, DIRECTORY_SIZE, OPTIONAL};
use super::{Error, Headers, checksum};
use crate::le;
use alloc::vec::Vec;
use core::ops::Range;

/// What the table and each of its entries begin and end on.
const ALIGNMENT: usize = 8;

/// Length, revision and type, before the signature.
const HEADER: usize = 8;

/// `WIN_CERT_REVISION_2_0`
const REVISION: u16 = 0x0200;

/// `WIN_CERT_TYPE_PKCS_SIGNED_DATA`
const PKCS_SIGNED_DATA: u16 = 0x0002;

/// More bytes than the signatures of any image take: one has about 1,500.
const MOST: usize = 64 << 10;

/// The signatures of `image`, each a PKCS#7 `SignedData` with up to 7 bytes of padding behind it.
///
/// # Errors
/// The table does not end the file, holds something else, or is larger than 64 KiB.
pub fn certificates(image: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let Some(mut table) = table(length(image), &parse(image)?)?.map(|table| &image[table]) else {
        return Ok(Vec::new());
    };
    if table.len() > MOST {
        return Err(Error::CertificateTable);
    }
    let mut found = Vec::new();
    while !table.is_empty() {
        let length = le::u32_at(table, 0).ok_or(Error::CertificateTable)? as usize;
        let kind = (le::u16_at(table, 4), le::u16_at(table, 6));
        let padded =
            length.checked_next_multiple_of(ALIGNMENT).filter(|padded| *padded <= table.len());
        let (Some(padded), HEADER.., (Some(REVISION), Some(PKCS_SIGNED_DATA))) =
            (padded, length, kind)
        else {
            return Err(Error::CertificateTable);
        };
        found.push(&table[HEADER..length]);
        table = &table[padded..];
    }
    Ok(found)
}

/// Adds a PKCS#7 `SignedData` behind the signatures that `image` has, and renews its checksum. An
/// unsigned image is padded with zeros to a multiple of 8 bytes first, which its digest covers
/// already.
///
/// # Errors
/// `image` is no image, its header has no room for a certificate table, or it grows beyond 4 GiB.
pub fn attach(image: &mut Vec<u8>, signed_data: &[u8]) -> Result<(), Error> {
    let attachment = attachment(&parse(image)?, length(image), signed_data)?;
    let Attachment { at, bytes, directory: (place, directory), checksum } = attachment;
    image.resize(at as usize, 0);
    image.extend(bytes);
    le::put(image, place as usize, directory);
    checksum::renew(image, checksum as usize);
    Ok(())
}

/// What [`attach`] changes of an image that is too large to be in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Where `bytes` go, with zeros before them up to there: behind all that the image has.
    pub at: u64,
    /// The signature as an entry of the certificate table, padded.
    pub bytes: Vec<u8>,
    /// Where the place of the certificate table is written, and what.
    pub directory: (u64, [u8; DIRECTORY_SIZE]),
    /// Where the checksum stands, which then is another one.
    pub checksum: u64,
}

/// What [`attach`] changes of an image with these headers that has `length` bytes.
///
/// # Errors
/// As [`attach`]'s.
pub fn attachment(headers: &Headers, length: u64, signed_data: &[u8]) -> Result<Attachment, Error> {
    let directory = headers.certificate_directory.ok_or(Error::NoCertificateDirectory)?;
    let at = length.next_multiple_of(ALIGNMENT as u64);
    let start = table(length, headers)?.map_or(at, |table| table.start as u64);
    let short = |length: u64| u32::try_from(length).map_err(|_| Error::TooLarge);
    let own = HEADER + signed_data.len();
    let mut bytes = Vec::with_capacity(own.next_multiple_of(ALIGNMENT));
    bytes.extend(short(own as u64)?.to_le_bytes());
    bytes.extend(REVISION.to_le_bytes());
    bytes.extend(PKCS_SIGNED_DATA.to_le_bytes());
    bytes.extend(signed_data);
    bytes.resize(own.next_multiple_of(ALIGNMENT), 0);
    let place = pointer(short(start)?, short(at + bytes.len() as u64)? - short(start)?);
    Ok(Attachment {
        at,
        bytes,
        directory: (directory as u64, place),
        checksum: headers.checksum_offset() as u64,
    })
}

/// Removes all signatures from `image`, and renews its checksum. What is left is what was signed,
/// with its padding, which an image without signatures gets too: so an image and what was signed of
/// it are the same, even if its linker wrote neither padding nor checksum.
///
/// # Errors
/// `image` is no image, or its certificate table does not end it.
pub fn detach(image: &mut Vec<u8>) -> Result<(), Error> {
    let parsed = parse(image)?;
    let (table, directory, checksum) =
        (table(length(image), &parsed)?, parsed.certificate_directory, parsed.checksum_offset());
    let end = table.map_or(image.len().next_multiple_of(ALIGNMENT), |table| table.start);
    if let Some(directory) = directory {
        image.resize(end, 0);
        le::put(image, directory, pointer(0, 0));
        checksum::renew(image, checksum);
    }
    Ok(())
}

/// What a signature covers: all of `image` but its checksum, the place of its certificate table,
/// and that table.
///
/// # Errors
/// `image` is no image, or bytes of it stand in no section or in two, so that what is digested is
/// not what is loaded.
pub fn covered(image: &[u8]) -> Result<[Range<usize>; 3], Error> {
    covered_by(&parse(image)?, length(image))
}

/// The same for an image with these headers that has `length` bytes.
///
/// # Errors
/// As [`covered`]'s.
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

/// What a signature covers of an image that has signatures, by what it begins with, so that it can
/// be digested while the rest is still to come. It is true if [`covered`] finds the same in the
/// whole.
pub fn covered_ahead(beginning: &[u8]) -> Option<[Range<usize>; 3]> {
    let optional = le::u32_at(beginning, 0x3C)? as usize + OPTIONAL;
    let directory = optional + CERTIFICATE_DIRECTORY;
    Some(all_but(optional + CHECKSUM, directory, le::u32_at(beginning, directory)? as usize))
}

/// What stands before the end without two fields of the headers.
fn all_but(checksum: usize, directory: usize, end: usize) -> [Range<usize>; 3] {
    [0..checksum, checksum + CHECKSUM_SIZE..directory, directory + DIRECTORY_SIZE..end]
}

/// Where the table stands in a file of `length` bytes, whose end it has to be.
fn table(length: u64, parsed: &Headers) -> Result<Option<Range<usize>>, Error> {
    match &parsed.certificates {
        Some(table) if table.end as u64 != length || table.start % ALIGNMENT != 0 => {
            Err(Error::CertificateTable)
        }
        table => Ok(table.clone()),
    }
}

/// The entry of the header that names a certificate table.
fn pointer(offset: u32, size: u32) -> [u8; DIRECTORY_SIZE] {
    let mut bytes = [0; DIRECTORY_SIZE];
    le::put(&mut bytes, 0, offset.to_le_bytes());
    le::put(&mut bytes, 4, size.to_le_bytes());
    bytes
}

fn parse(image: &[u8]) -> Result<Headers, Error> {
    Headers::parse(image, length(image))
}

fn length(image: &[u8]) -> u64 {
    image.len() as u64
}
