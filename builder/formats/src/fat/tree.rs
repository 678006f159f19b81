//! The reader. It is our own, because `fatfs` trusts the volume and follows a loop in it forever.

use std::collections::HashSet;

use zerocopy::FromBytes;

use super::Error;
use super::long_name::LongName;
use super::raw::{BootSector, DirEntry, ENTRY, LongNameEntry, short_name};
use crate::le;

/// The first byte of a deleted entry.
pub(super) const DELETED: u8 = 0xE5;
const VOLUME_LABEL: u8 = 0x08;
const FOLDER: u8 = 0x10;
/// The attributes of a [`LongNameEntry`].
const LONG_NAME: u8 = 0x0F;
/// The names of the entries for a folder itself and for its parent.
const DOTS: [&[u8; 11]; 2] = [b".          ", b"..         "];
/// The flag of a volume with one active copy of the table, which may be any of them.
const NOT_MIRRORED: u16 = 1 << 7;
/// The longest path that Linux accepts.
const MAX_PATH: usize = 4096;
/// Cluster numbers from here on end a chain.
const END: u32 = 0x0FFF_FFF8;
/// The table's value for an unusable cluster.
pub(super) const BAD: u32 = 0x0FFF_FFF7;

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    /// The absolute path.
    pub path: String,
    pub is_folder: bool,
    /// The offsets of its clusters in the volume in bytes. Empty for an empty file.
    pub extents: Vec<usize>,
    /// Bytes of a file.
    pub size: usize,
    /// The offset of its directory entry in the volume in bytes.
    pub entry: usize,
}

/// A volume with a valid boot sector.
pub(super) struct Tree<'a> {
    pub bytes: &'a [u8],
    /// Bytes of a sector.
    pub sector_size: usize,
    /// Bytes of a cluster.
    pub cluster_size: usize,
    /// The first copy of the table.
    pub fat: &'a [u8],
    /// The offset of the copies of the table in bytes.
    reserved: usize,
    /// The offset of the first cluster, number 2, in bytes.
    data: usize,
    root: u32,
    /// Which clusters are in use, by number. [`Self::nodes`] fills it in.
    pub used: Vec<bool>,
}

impl<'a> Tree<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let invalid = Error::Field;
        let (boot, _) =
            BootSector::ref_from_prefix(bytes).map_err(|_| invalid("bytes per sector"))?;
        let sector_size = usize::from(boot.bytes_per_sector.get());
        if sector_size != 512 && sector_size != 4096 {
            return Err(invalid("bytes per sector"));
        }
        if !boot.sectors_per_cluster.is_power_of_two() {
            return Err(invalid("sectors per cluster"));
        }
        if boot.tables == 0 {
            return Err(invalid("number of tables"));
        }
        if boot.flags.get() & NOT_MIRRORED != 0 {
            return Err(invalid("flags"));
        }
        for (field, name) in [
            (boot.root_entries_16, "root entries"),
            (boot.sectors_16, "sectors, short"),
            (boot.sectors_per_table_16, "sectors per table, short"),
            (boot.version, "version"),
        ] {
            if field != 0 {
                return Err(invalid(name));
            }
        }
        let (sectors, fat_sectors) =
            (boot.sectors.get() as usize, boot.sectors_per_table.get() as usize);
        if sectors > bytes.len() / sector_size {
            return Err(invalid("sectors"));
        }
        let reserved = usize::from(boot.reserved_sectors.get()) * sector_size;
        let fat = bytes.get(reserved..).and_then(|rest| rest.get(..fat_sectors * sector_size));
        let fat = fat.ok_or(invalid("sectors per table"))?;
        let data = reserved + usize::from(boot.tables) * fat.len();
        let cluster_size = usize::from(boot.sectors_per_cluster) * sector_size;
        let clusters = (sectors * sector_size).saturating_sub(data) / cluster_size;
        if clusters < super::MIN_CLUSTERS as usize || clusters + 2 > fat.len() / 4 {
            return Err(invalid("sectors"));
        }
        let (root, used) = (boot.root_cluster.get(), vec![false; clusters + 2]);
        Ok(Self { bytes, sector_size, cluster_size, fat, reserved, data, root, used })
    }

    /// All files and folders except the root, each folder before what it holds.
    pub fn nodes(&mut self) -> Result<Vec<TreeEntry>, Error> {
        let root = self.chain(self.root)?;
        let mut nodes = Vec::new();
        let mut folders = vec![(String::new(), root)];
        let mut named = 0;
        let mut names = HashSet::new();
        while let Some((path, extents)) = folders.pop() {
            for node in self.folder(&path, &extents)? {
                // Paths repeat the names of folders. An honest volume's paths together are no
                // longer than the volume.
                named += node.path.len();
                // Two names that differ in case name the same file, and readers differ in which
                // one they open.
                if named > self.bytes.len() || !names.insert(node.path.to_uppercase()) {
                    return Err(Error::Path(node.path));
                }
                if node.is_folder {
                    folders.push((node.path.clone(), node.extents.clone()));
                }
                nodes.push(node);
            }
        }
        Ok(nodes)
    }

    /// The bytes of a file.
    pub fn content(&self, file: &TreeEntry) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(file.extents.len() * self.cluster_size);
        file.extents.iter().for_each(|extent| {
            bytes.extend_from_slice(&self.bytes[*extent..*extent + self.cluster_size])
        });
        bytes.truncate(file.size);
        bytes
    }

    /// Reads one folder.
    fn folder(&mut self, path: &str, extents: &[usize]) -> Result<Vec<TreeEntry>, Error> {
        let mut nodes = Vec::new();
        let mut long_name = LongName::default();
        let bytes = self.bytes;
        for extent in extents {
            let cluster = &bytes[*extent..*extent + self.cluster_size];
            for (index, stored) in cluster.chunks_exact(ENTRY).enumerate() {
                let damaged = || Error::Name(path.to_owned());
                let entry = DirEntry::ref_from_bytes(stored).map_err(|_| damaged())?;
                match (entry.name[0], entry.attributes) {
                    (0, _) => return Ok(nodes),
                    (DELETED, _) => long_name = LongName::default(),
                    (_, LONG_NAME) => {
                        let part = LongNameEntry::ref_from_bytes(stored).map_err(|_| damaged())?;
                        long_name.push(part).ok_or_else(damaged)?;
                    }
                    // Other names that begin with a dot are invalid, and readers differ in whether
                    // they show them.
                    (b'.', _) if DOTS.contains(&&entry.name) => long_name = LongName::default(),
                    (b'.', _) => return Err(damaged()),
                    (_, attributes) if attributes & VOLUME_LABEL != 0 => {
                        long_name = LongName::default()
                    }
                    _ => {
                        let name = long_name.take_for(entry).ok_or_else(damaged)?;
                        let node = self.node(path, entry, &name)?;
                        nodes.push(TreeEntry { entry: extent + index * ENTRY, ..node });
                    }
                }
            }
        }
        Ok(nodes)
    }

    fn node(
        &mut self,
        folder: &str,
        entry: &DirEntry,
        long_name: &[u16],
    ) -> Result<TreeEntry, Error> {
        let size = entry.size.get() as usize;
        let name = if long_name.is_empty() {
            short_name(entry)
        } else {
            String::from_utf16(long_name).ok()
        };
        let name = name
            .filter(|name| !name.contains(['/', '\0']))
            .ok_or_else(|| Error::Name(folder.to_owned()))?;
        let path = format!("{folder}/{name}");
        if path.len() > MAX_PATH {
            return Err(Error::Path(path));
        }
        let is_folder = entry.attributes & FOLDER != 0;
        let first = entry.first_cluster();
        let extents =
            if first == 0 && size == 0 && !is_folder { Vec::new() } else { self.chain(first)? };
        if !is_folder && size.div_ceil(self.cluster_size) != extents.len() {
            return Err(Error::Cluster(first));
        }
        Ok(TreeEntry { path, is_folder, extents, size, entry: 0 })
    }

    /// Returns the offsets of the clusters of a chain, and marks them as used. A cluster in use is
    /// an error, so a loop ends.
    fn chain(&mut self, first: u32) -> Result<Vec<usize>, Error> {
        let mut extents = Vec::new();
        let mut number = first;
        loop {
            match self.used.get_mut(number as usize) {
                Some(used) if number >= 2 && !*used => *used = true,
                _ => return Err(Error::Cluster(number)),
            }
            extents.push(self.place(number));
            let next = self.next(number).ok_or(Error::Cluster(number))?;
            if next >= END {
                return Ok(extents);
            }
            number = next;
        }
    }
}

/// Access for the writer.
impl Tree<'_> {
    /// The table's value for a cluster; 0 if it is free.
    pub fn next(&self, number: u32) -> Option<u32> {
        Some(le::u32_at(self.fat, number as usize * 4)? & 0x0FFF_FFFF)
    }

    /// The offset of a cluster in bytes.
    pub fn place(&self, number: u32) -> usize {
        self.data + (number as usize - 2) * self.cluster_size
    }

    /// The number of the cluster at this offset.
    pub fn number(&self, place: usize) -> usize {
        (place - self.data) / self.cluster_size + 2
    }

    /// The offsets of the copies of the table in bytes.
    pub fn copies(&self) -> impl Iterator<Item = usize> {
        (self.reserved..self.data).step_by(self.fat.len())
    }
}
