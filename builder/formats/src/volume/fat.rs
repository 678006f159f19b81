//! FAT12, FAT16 and FAT32 (Microsoft's FAT specification 1.03). The kind follows from the header as
//! in Linux, which accepts small FAT32 volumes that the specification does not.

use std::io::{Read, Seek};

use zerocopy::FromBytes;

use super::label::SECTOR;
use super::{Error, MAX_FOLDER, read_at};
use crate::fat::long_name::LongName;
use crate::fat::raw::{BOOT_SIGNATURE, BootSector, DirEntry, ENTRY, LongNameEntry, short_name};

/// The first byte of a deleted entry.
const DELETED: u8 = 0xE5;
const VOLUME_LABEL: u8 = 0x08;
const FOLDER: u8 = 0x10;
/// The attributes of a part of a long name.
const LONG_NAME: u8 = 0x0F;
/// A FAT volume with more clusters is not FAT12.
const MAX_FAT12: u64 = 4084;
/// The largest cluster in bytes that Linux writes.
const MAX_CLUSTER: u64 = 64 << 10;

const HEADER: &str = "the header of the FAT volume";

/// The width of an entry of the table in bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Bits12,
    Bits16,
    Bits32,
}

/// A place of bytes: a region of the volume, or a chain of clusters.
#[derive(Clone, Copy)]
enum Extent {
    Region { offset: u64, length: u64 },
    Chain(u32),
}

/// A volume.
pub struct Fat<R> {
    source: R,
    width: Width,
    /// Bytes of a cluster.
    cluster_size: u64,
    /// The number of clusters.
    clusters: u64,
    /// The offset of the table in bytes.
    table: u64,
    /// The offset of the first cluster, number 2, in bytes.
    data: u64,
    root: Extent,
}

impl<R: Read + Seek> Fat<R> {
    pub(super) fn open(mut source: R) -> Result<Self, Error> {
        let bytes = read_at(&mut source, 0, SECTOR, HEADER)?;
        if !bytes.ends_with(&BOOT_SIGNATURE) {
            return Err(Error::Unsupported("volumes other than ISO 9660 and FAT"));
        }
        let damaged = || Error::Damaged(HEADER);
        let (boot, _) = BootSector::ref_from_prefix(&bytes).map_err(|_| damaged())?;
        let (sector, sectors_per_cluster) =
            (u64::from(boot.bytes_per_sector.get()), u64::from(boot.sectors_per_cluster));
        let cluster_size = sector * sectors_per_cluster;
        let is_valid = (512..=4096).contains(&sector)
            && sector.is_power_of_two()
            && sectors_per_cluster.is_power_of_two()
            && cluster_size <= MAX_CLUSTER
            && (1..=2).contains(&boot.tables);
        if !is_valid {
            return Err(damaged());
        }
        let either =
            |short: u16, long: u32| if short != 0 { u64::from(short) } else { long.into() };
        let table_size =
            either(boot.sectors_per_table_16.get(), boot.sectors_per_table.get()) * sector;
        let size = either(boot.sectors_16.get(), boot.sectors.get()) * sector;
        let table = u64::from(boot.reserved_sectors.get()) * sector;
        let root = table + u64::from(boot.tables) * table_size;
        let root_size =
            (u64::from(boot.root_entries_16.get()) * ENTRY as u64).next_multiple_of(sector);
        let data = root + root_size;
        let clusters = size.checked_sub(data).ok_or_else(damaged)? / cluster_size;
        let (width, root) = match boot.is_fat32() {
            true => (Width::Bits32, Extent::Chain(boot.root_cluster.get())),
            false => (
                if clusters > MAX_FAT12 { Width::Bits16 } else { Width::Bits12 },
                Extent::Region { offset: root, length: root_size },
            ),
        };
        Ok(Fat { source, width, cluster_size, clusters, table, data, root })
    }

    pub(super) fn file(&mut self, path: &str, max: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut folder = self.root;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            let Some(entry) = self.find(folder, path, name)? else { return Ok(None) };
            let (is_folder, is_last) = (entry.attributes & FOLDER != 0, names.peek().is_none());
            match (is_last, is_folder) {
                (true, false) => return self.content(&entry, path, max).map(Some),
                (false, true) => folder = Extent::Chain(self.first_cluster(&entry)),
                (true, true) => return Err(not_a(path, "a file", "a folder")),
                (false, false) => return Err(not_a(path, "a folder", "a file")),
            }
        }
        Ok(None)
    }

    fn content(&mut self, entry: &DirEntry, path: &str, max: usize) -> Result<Vec<u8>, Error> {
        let size = u64::from(entry.size.get());
        if size > max as u64 {
            return Err(Error::LargeFile { path: path.to_owned(), size, max });
        }
        if size == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = self.read(Extent::Chain(self.first_cluster(entry)), size, "a file")?;
        match bytes.len() as u64 >= size {
            true => bytes.truncate(size as usize),
            false => return Err(Error::Damaged("the chain of clusters of a file")),
        }
        Ok(bytes)
    }

    /// The entry of this name, in any case; `path` is for an error.
    fn find(&mut self, folder: Extent, path: &str, name: &str) -> Result<Option<DirEntry>, Error> {
        let bytes = self.read(folder, MAX_FOLDER + 1, "a folder")?;
        if bytes.len() as u64 > MAX_FOLDER {
            return Err(Error::LargeFolder(path.to_owned()));
        }
        let damaged = || Error::Damaged("an entry of a folder");
        let (mut found, mut long_name) = (None, LongName::default());
        for stored in bytes.chunks_exact(ENTRY) {
            let entry = DirEntry::read_from_bytes(stored).map_err(|_| damaged())?;
            match (entry.name[0], entry.attributes) {
                (0, _) => break,
                (DELETED, _) => long_name = LongName::default(),
                (_, LONG_NAME) => {
                    let part = LongNameEntry::ref_from_bytes(stored).map_err(|_| damaged())?;
                    long_name.push(part).ok_or_else(damaged)?;
                }
                (_, attributes) if attributes & VOLUME_LABEL != 0 => {
                    long_name = LongName::default();
                }
                _ => {
                    let units = long_name.take_for(&entry).ok_or_else(damaged)?;
                    let own = match units.is_empty() {
                        true => short_name(&entry),
                        false => String::from_utf16(&units).ok(),
                    };
                    if own.is_some_and(|own| own.eq_ignore_ascii_case(name)) {
                        if found.is_some() {
                            return Err(Error::Twice(path.to_owned()));
                        }
                        found = Some(entry);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Reads a region, or a chain up to the cluster with its byte number `max`.
    fn read(&mut self, extent: Extent, max: u64, what: &'static str) -> Result<Vec<u8>, Error> {
        let mut number = match extent {
            Extent::Region { offset, length } => {
                return read_at(&mut self.source, offset, length.min(max) as usize, what);
            }
            Extent::Chain(number) => number,
        };
        let mut bytes = Vec::new();
        loop {
            let index = u64::from(number).checked_sub(2).filter(|index| *index < self.clusters);
            let index = index.ok_or(Error::Damaged("a chain of clusters"))?;
            let offset = self.data + index * self.cluster_size;
            bytes.extend(read_at(&mut self.source, offset, self.cluster_size as usize, what)?);
            if bytes.len() as u64 >= max {
                return Ok(bytes);
            }
            match self.next(number)? {
                Some(next) => number = next,
                None => return Ok(bytes),
            }
        }
    }

    /// The cluster after this one; none at the end of a chain.
    fn next(&mut self, number: u32) -> Result<Option<u32>, Error> {
        let index = u64::from(number);
        let (offset, length, end) = match self.width {
            Width::Bits12 => (index * 3 / 2, 2, 0xFF8),
            Width::Bits16 => (index * 2, 2, 0xFFF8),
            Width::Bits32 => (index * 4, 4, 0x0FFF_FFF8),
        };
        let mut bytes = [0; 4];
        bytes[..length].copy_from_slice(&read_at(
            &mut self.source,
            self.table + offset,
            length,
            "the table of clusters",
        )?);
        let value = u32::from_le_bytes(bytes);
        let value = match self.width {
            Width::Bits12 if index % 2 == 1 => value >> 4,
            Width::Bits12 => value & 0xFFF,
            Width::Bits16 => value,
            Width::Bits32 => value & 0x0FFF_FFFF,
        };
        Ok((value < end).then_some(value))
    }

    fn first_cluster(&self, entry: &DirEntry) -> u32 {
        match self.width {
            Width::Bits32 => entry.first_cluster(),
            // The high part is another field there.
            Width::Bits12 | Width::Bits16 => entry.first_cluster() & 0xFFFF,
        }
    }
}

fn not_a(path: &str, wanted: &'static str, found: &'static str) -> Error {
    Error::NotA { path: path.to_owned(), wanted, found }
}
