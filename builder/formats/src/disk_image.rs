//! A whole disk image: protective MBR, partition table and partitions. Zeros become holes in the
//! file.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use osbuild_abi::disk::ALIGNMENT;
use uuid::Uuid;

use crate::gpt::{self, Geometry, Table};

/// Bytes in a block. A block of zeros becomes a hole.
const BLOCK: usize = 64 << 10;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// The contents at the start of a partition. The rest is a hole.
pub struct Content<'a> {
    size: u64,
    reader: Box<dyn Read + 'a>,
}

/// A partition of an image.
pub struct Partition<'a> {
    /// Its name, at most 36 UTF-16 code units.
    pub name: &'a str,
    /// The type of its contents.
    pub type_guid: Uuid,
    /// Its unique identifier.
    pub guid: Uuid,
    /// The raw 64 attribute bits.
    pub attributes: u64,
    /// Its size in bytes, a multiple of [`ALIGNMENT`].
    pub size: u64,
    /// Its contents.
    pub content: Content<'a>,
}

/// A disk image to write. The partitions follow each other in this order, without gaps.
pub struct DiskImage<'a> {
    /// Bytes in a sector: 512 or 4096.
    pub sector_size: u64,
    /// The disk's unique identifier.
    pub guid: Uuid,
    /// Its partitions.
    pub partitions: Vec<Partition<'a>>,
}

/// Why an image was not written.
#[derive(Debug)]
pub enum Error {
    /// The size of this partition is zero or not aligned.
    Size {
        /// The partition's name.
        name: String,
        /// The size in bytes.
        size: u64,
    },
    /// The contents of this partition are larger than it.
    TooBig {
        /// The partition's name.
        name: String,
        /// Bytes of the contents.
        content: u64,
        /// The partition's size in bytes.
        size: u64,
    },
    /// The contents of this partition ended early.
    Short(String),
    /// The partition table cannot be made.
    Table(gpt::Error),
    /// Reading contents or writing the image failed.
    Io(io::Error),
}

impl<'a> Content<'a> {
    /// No contents.
    pub fn empty() -> Self {
        Self::reader(0, io::empty())
    }

    /// These bytes.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Self::reader(bytes.len() as u64, bytes)
    }

    /// The next `size` bytes of a reader. If it has fewer, [`DiskImage::write`] fails.
    pub fn reader(size: u64, reader: impl Read + 'a) -> Self {
        Self { size, reader: Box::new(reader) }
    }
}

impl DiskImage<'_> {
    /// The sector size and the size of the image, which has one [`ALIGNMENT`] before and one after
    /// the partitions. Checks that everything fits, before anything is written.
    pub fn geometry(&self) -> Result<Geometry, Error> {
        for Partition { name, size, content, .. } in &self.partitions {
            let (name, size) = ((*name).to_owned(), *size);
            if size == 0 || !size.is_multiple_of(ALIGNMENT) {
                return Err(Error::Size { name, size });
            }
            if content.size > size {
                return Err(Error::TooBig { name, content: content.size, size });
            }
        }
        let partitions: u64 = self.partitions.iter().map(|partition| partition.size).sum();
        Geometry::new(self.sector_size, partitions + 2 * ALIGNMENT).map_err(Error::Table)
    }

    /// The partition table.
    pub fn table(&self) -> Result<Table, Error> {
        let sector_size = self.geometry()?.sector_size();
        let mut end = ALIGNMENT / sector_size;
        let partitions = self.partitions.iter().zip(1..).map(|(partition, number)| {
            let first = end;
            end += partition.size / sector_size;
            gpt::Partition {
                number,
                type_guid: partition.type_guid,
                guid: partition.guid,
                first,
                last: end - 1,
                attributes: partition.attributes,
                name: partition.name.to_owned(),
            }
        });
        Ok(Table { disk_guid: self.guid, partitions: partitions.collect() })
    }

    /// Writes the image from the start of `out`, which must be empty: bytes that are not written
    /// must read as zeros. Returns the size of the image in bytes.
    pub fn write<W: Write + Seek>(self, mut out: W) -> Result<u64, Error> {
        let (geometry, table) = (self.geometry()?, self.table()?);
        let writes = gpt::create(&table, geometry).map_err(Error::Table)?;
        for (partition, place) in self.partitions.into_iter().zip(&table.partitions) {
            let expected = partition.content.size;
            let offset = place.first * geometry.sector_size();
            let copied = copy(partition.content.reader.take(expected), &mut out, offset)
                .map_err(Error::Io)?;
            if copied != expected {
                return Err(Error::Short(partition.name.to_owned()));
            }
        }
        for write in writes {
            out.seek(SeekFrom::Start(write.offset)).map_err(Error::Io)?;
            out.write_all(&write.bytes).map_err(Error::Io)?;
        }
        out.flush().map_err(Error::Io)?;
        Ok(geometry.sectors() * geometry.sector_size())
    }
}

/// Copies all of `reader` to `offset` of `out`, except for blocks of zeros. Returns the number of
/// bytes read.
fn copy<W: Write + Seek>(mut reader: impl Read, out: &mut W, offset: u64) -> io::Result<u64> {
    let mut block = Vec::with_capacity(BLOCK);
    let mut copied = 0;
    loop {
        block.clear();
        let count = reader.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        if block[..] != ZEROS[..count] {
            out.seek(SeekFrom::Start(offset + copied))?;
            out.write_all(&block)?;
        }
        copied += count as u64;
        if count < BLOCK {
            return Ok(copied);
        }
    }
}

impl fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.size)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { name, size } => {
                write!(
                    f,
                    "partition `{name}` has `{size}` bytes, which is not a multiple of {ALIGNMENT}"
                )
            }
            Self::TooBig { name, content, size } => {
                write!(f, "`{content}` bytes do not fit partition `{name}`, which has `{size}`")
            }
            Self::Short(name) => write!(f, "the content of partition `{name}` ended early"),
            Self::Table(_) => write!(f, "the partition table cannot be made"),
            Self::Io(_) => write!(f, "the image could not be written"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Table(error) => Some(error),
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}
