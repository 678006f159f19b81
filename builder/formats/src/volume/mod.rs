//! Volumes that somebody else has made, ISO 9660 and FAT: their labels, and single small files.
//!
//! A volume is read in place, so memory use is independent of its size. Only the folders on the way
//! to a file are read, each up to a limit, so a loop among folders or clusters ends.

mod error;
mod fat;
mod iso9660;
mod label;
mod rock_ridge;

use std::io::{Read, Seek, SeekFrom};

pub use error::Error;
pub use label::label;

/// The largest folder that is read, in bytes: some thousand entries.
const MAX_FOLDER: u64 = 256 << 10;

/// A volume with a valid header.
pub enum Volume<R> {
    /// ISO 9660, with Rock Ridge or Joliet names or without.
    Iso9660(iso9660::Iso9660<R>),
    /// FAT12, FAT16 or FAT32.
    Fat(fat::Fat<R>),
}

impl<R: Read + Seek> Volume<R> {
    /// Reads the header of the volume that begins at the start of `source`.
    ///
    /// # Errors
    /// It is neither ISO 9660 nor FAT, or is damaged.
    pub fn open(mut source: R) -> Result<Self, Error> {
        match iso9660::is_here(&mut source) {
            true => Ok(Self::Iso9660(iso9660::Iso9660::open(source)?)),
            false => Ok(Self::Fat(fat::Fat::open(source)?)),
        }
    }

    /// The content of the file at `path`, whose folders are separated by `/`; none if it does not
    /// exist.
    ///
    /// # Errors
    /// It has more than `max` bytes, is no regular file, or the volume is damaged there.
    pub fn file(&mut self, path: &str, max: usize) -> Result<Option<Vec<u8>>, Error> {
        match self {
            Self::Iso9660(volume) => volume.file(path, max),
            Self::Fat(volume) => volume.file(path, max),
        }
    }
}

/// Reads exactly `length` bytes at `offset`. `what` names them for an error.
fn read_at(
    source: &mut (impl Read + Seek),
    offset: u64,
    length: usize,
    what: &'static str,
) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; length];
    let read = source.seek(SeekFrom::Start(offset)).and_then(|_| source.read_exact(&mut bytes));
    read.map_err(|error| Error::Read { what, error })?;
    Ok(bytes)
}
