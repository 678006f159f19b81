//! The image for a disk: which of its bytes are zero, and its partition table for the disk's size.

use crate::Result;
use crate::device::{CHUNK, is_zero};
use crate::error::{At, Error};
use osbuild_abi::disk::ALIGNMENT;
use osbuild_formats::gpt::{Geometry, Label, Table, Write, create};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use uuid::{Builder, Uuid};

/// Bytes in a block. A block of zeros is not written.
const BLOCK: u64 = 64 << 10;

/// An open image.
pub struct Image {
    file: File,
    path: PathBuf,
    geometry: Geometry,
    table: Table,
}

/// A range of a disk, at most [`CHUNK`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The range in bytes from the start of the disk.
    pub range: Range<u64>,
    /// Whether all bytes are zero.
    pub is_zero: bool,
}

impl Image {
    /// Opens an image with this sector size in bytes.
    ///
    /// # Errors
    /// It cannot be read, or has no valid partition table.
    pub fn open(path: &Path, sector_size: u32) -> Result<Self> {
        let mut file = File::open(path).at("open", path)?;
        let size = file.metadata().at("read", path)?.len();
        let broken = |error| Error::Image(path.to_owned(), error);
        let geometry = Geometry::new(sector_size.into(), size).map_err(broken)?;
        let table = Label::read(&mut file, geometry).map_err(broken)?.table().clone();
        Ok(Image { file, path: path.to_owned(), geometry, table })
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.geometry.sectors() * self.geometry.sector_size()
    }

    /// Its sector size in bytes.
    pub fn sector_size(&self) -> u64 {
        self.geometry.sector_size()
    }

    /// Its partition table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The ranges between the two copies of the partition table, in order.
    pub fn pieces(&self) -> Result<Vec<Piece>> {
        let end = self.geometry.sectors() * self.geometry.sector_size() - ALIGNMENT;
        let mut pieces = Vec::<Piece>::new();
        let mut block = vec![0; BLOCK as usize];
        for start in (ALIGNMENT..end).step_by(BLOCK as usize) {
            let range = start..end.min(start + BLOCK);
            let bytes = &mut block[..(range.end - range.start) as usize];
            self.read(&range, bytes)?;
            let is_zero = is_zero(bytes);
            match pieces.last_mut() {
                Some(last)
                    if last.is_zero == is_zero && last.range.end - last.range.start < CHUNK =>
                {
                    last.range.end = range.end
                }
                _ => pieces.push(Piece { range, is_zero }),
            }
        }
        Ok(pieces)
    }

    /// Reads `range` of the image into `bytes`, which has the same length.
    pub fn read(&self, range: &Range<u64>, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, range.start).at("read", &self.path)
    }

    /// Returns the image's partition table for a disk: the last partition, DATA, takes the rest of
    /// the disk, and all identifiers are new, so that two disks from one image are never confused.
    /// Nothing depends on the old identifiers: slotboot and `init` read a disk's identifiers from
    /// its table.
    ///
    /// # Errors
    /// The image does not fit.
    pub fn table_for(&self, disk: Geometry) -> Result<Table> {
        let mut table = self.table.clone();
        table.disk_guid = fresh()?;
        for partition in &mut table.partitions {
            partition.guid = fresh()?;
        }
        let unit = ALIGNMENT / disk.sector_size();
        let end = (disk.last_usable() + 1) / unit * unit;
        if let Some(last) = table.partitions.iter_mut().max_by_key(|partition| partition.last) {
            last.last = last.last.max(end.saturating_sub(1));
        }
        Ok(table)
    }
}

/// The first and the last bytes of a disk, which hold its partition table. All other bytes there
/// must be zero, so that neither an older table nor the magic numbers of file systems and RAID
/// arrays remain.
pub struct Ends {
    /// The writes of the table, in order.
    pub writes: Vec<Write>,
    /// The two ranges, zero except for the writes.
    pub ranges: [Range<u64>; 2],
}

impl Ends {
    /// Returns the ends of a disk with this table.
    pub fn new(table: &Table, disk: Geometry) -> Result<Self> {
        let writes = create(table, disk).map_err(Error::Table)?;
        let size = disk.sectors() * disk.sector_size();
        // The last partition ends on a multiple of the alignment, and the table needs some bytes
        // after it.
        let end = table.last().map_or(size, |partition| (partition.last + 1) * disk.sector_size());
        if end > size {
            return Err(Error::TooSmall);
        }
        Ok(Ends { writes, ranges: [0..ALIGNMENT, end.min(size - ALIGNMENT)..size] })
    }

    /// Returns the bytes for one of the ranges.
    pub fn bytes(&self, range: &Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        for write in self.writes.iter().filter(|write| range.contains(&write.offset)) {
            let at = (write.offset - range.start) as usize;
            bytes[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
        }
        bytes
    }
}

/// Returns a unique identifier: a UUID of version 4 (RFC 9562).
fn fresh() -> Result<Uuid> {
    let mut random = [0; 16];
    match getrandom(&mut random, GetRandomFlags::empty()) {
        Ok(16) => {}
        _ => return Err(Error::Random),
    }
    Ok(Builder::from_random_bytes(random).into_uuid())
}
