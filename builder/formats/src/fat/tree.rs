//! The reader. It is our own, as `fatfs` trusts the volume: a loop in it would never end there.

use std::collections::HashSet;

use super::Error;
use super::long_name::LongName;
use crate::le;

/// Bytes of an entry of a folder.
pub(super) const ENTRY: usize = 32;
/// The first byte of an entry that is no longer used.
pub(super) const DELETED: u8 = 0xE5;
const VOLUME_LABEL: u8 = 0x08;
const FOLDER: u8 = 0x10;
/// The attributes of an entry that holds a part of the long name of the entry behind it.
const LONG_NAME: u8 = 0x0F;
/// What a folder calls itself, and the folder that it is in.
const DOTS: [&[u8]; 2] = [b".          ", b"..         "];
/// Only one copy of the table counts, and it need not be the first.
const NOT_MIRRORED: u16 = 1 << 7;
/// Fields of two bytes that are zero in FAT32: who finds something there reads another file system.
const ZERO: [(usize, &str); 4] = [
    (17, "root entries"),
    (19, "sectors, short"),
    (22, "sectors per table, short"),
    (42, "version"),
];
/// The longest path that Linux takes.
const LONGEST_PATH: usize = 4096;
/// A cluster number from here on ends a chain.
const END: u32 = 0x0FFF_FFF8;
/// What follows a cluster that cannot be used.
pub(super) const BAD: u32 = 0x0FFF_FFF7;

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The absolute path.
    pub path: String,
    pub is_folder: bool,
    /// Where its clusters stand in the volume, in bytes. Empty for an empty file.
    pub extents: Vec<usize>,
    /// Bytes of a file.
    pub size: usize,
    /// Where its entry stands in the volume, in bytes.
    pub entry: usize,
}

/// A volume whose first sector makes sense.
pub(super) struct Tree<'a> {
    pub bytes: &'a [u8],
    /// Bytes of a sector.
    pub sector_size: usize,
    /// Bytes of a cluster.
    pub cluster_size: usize,
    /// The first copy of the table.
    pub fat: &'a [u8],
    /// Where the copies of the table start, in bytes.
    reserved: usize,
    /// Where the first cluster stands, which has the number 2.
    data: usize,
    root: u32,
    /// Which clusters something uses, by number, once [`Self::nodes`] has looked.
    pub used: Vec<bool>,
}

impl<'a> Tree<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let byte = |offset: usize| bytes.get(offset).copied().map(usize::from);
        let short =
            |offset, name| le::u16_at(bytes, offset).map(usize::from).ok_or(Error::Field(name));
        let long = |offset, name| le::u32_at(bytes, offset).ok_or(Error::Field(name));
        let sector_size = short(11, "bytes per sector")?;
        if sector_size != 512 && sector_size != 4096 {
            return Err(Error::Field("bytes per sector"));
        }
        let per_cluster = byte(13)
            .filter(|count| count.is_power_of_two())
            .ok_or(Error::Field("sectors per cluster"))?;
        let fats = byte(16).filter(|count| *count > 0).ok_or(Error::Field("number of tables"))?;
        if le::u16_at(bytes, 40).is_none_or(|flags| flags & NOT_MIRRORED != 0) {
            return Err(Error::Field("flags"));
        }
        if let Some((_, name)) =
            ZERO.iter().find(|(offset, _)| le::u16_at(bytes, *offset) != Some(0))
        {
            return Err(Error::Field(name));
        }
        let (sectors, fat_sectors) =
            (long(32, "sectors")? as usize, long(36, "sectors per table")? as usize);
        if sectors > bytes.len() / sector_size {
            return Err(Error::Field("sectors"));
        }
        let reserved = short(14, "reserved sectors")? * sector_size;
        let fat = bytes.get(reserved..).and_then(|rest| rest.get(..fat_sectors * sector_size));
        let fat = fat.ok_or(Error::Field("sectors per table"))?;
        let data = reserved + fats * fat.len();
        let cluster_size = per_cluster * sector_size;
        let clusters = (sectors * sector_size).saturating_sub(data) / cluster_size;
        if clusters < super::LEAST_CLUSTERS as usize || clusters + 2 > fat.len() / 4 {
            return Err(Error::Field("sectors"));
        }
        let (root, used) = (long(44, "root cluster")?, vec![false; clusters + 2]);
        Ok(Self { bytes, sector_size, cluster_size, fat, reserved, data, root, used })
    }

    /// All files and folders except the root, each folder before what it holds.
    pub fn nodes(&mut self) -> Result<Vec<Node>, Error> {
        let root = self.chain(self.root)?;
        let mut nodes = Vec::new();
        let mut folders = vec![(String::new(), root)];
        let mut named = 0;
        let mut names = HashSet::new();
        while let Some((path, extents)) = folders.pop() {
            for node in self.folder(&path, &extents)? {
                // Paths repeat the names of folders. Those of an honest volume do not take more
                // than the volume.
                named += node.path.len();
                // Two names that differ in case are the same file, and readers differ in which of
                // them it is.
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
    pub fn content(&self, file: &Node) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(file.extents.len() * self.cluster_size);
        file.extents.iter().for_each(|extent| {
            bytes.extend_from_slice(&self.bytes[*extent..*extent + self.cluster_size])
        });
        bytes.truncate(file.size);
        bytes
    }

    /// What one folder holds.
    fn folder(&mut self, path: &str, extents: &[usize]) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        let mut long_name = LongName::default();
        let bytes = self.bytes;
        for extent in extents {
            let (entries, _) = bytes[*extent..*extent + self.cluster_size].as_chunks::<ENTRY>();
            for (index, entry) in entries.iter().enumerate() {
                let place = extent + index * ENTRY;
                let damaged = || Error::Name(path.to_owned());
                match (entry[0], entry[11]) {
                    (0, _) => return Ok(nodes),
                    (DELETED, _) => long_name = LongName::default(),
                    (_, LONG_NAME) => long_name.take(entry).ok_or_else(damaged)?,
                    // Any other name that begins so is none, and some reader would show what we
                    // pass over.
                    (b'.', _) if DOTS.iter().any(|name| entry.starts_with(name)) => {
                        long_name = LongName::default()
                    }
                    (b'.', _) => return Err(damaged()),
                    (_, attributes) if attributes & VOLUME_LABEL != 0 => {
                        long_name = LongName::default()
                    }
                    _ => {
                        let name = long_name.of(entry).ok_or_else(damaged)?;
                        nodes.push(Node { entry: place, ..self.node(path, entry, &name)? });
                    }
                }
            }
        }
        Ok(nodes)
    }

    fn node(
        &mut self,
        folder: &str,
        entry: &[u8; ENTRY],
        long_name: &[u16],
    ) -> Result<Node, Error> {
        let half = |offset| {
            u32::from(le::u16_at(entry, offset).expect("the field stands within the entry"))
        };
        let size = le::u32_at(entry, 28).expect("the field stands within the entry") as usize;
        let name = if long_name.is_empty() {
            short_name(entry)
        } else {
            String::from_utf16(long_name).ok()
        };
        let name = name
            .filter(|name| !name.contains(['/', '\0']))
            .ok_or_else(|| Error::Name(folder.to_owned()))?;
        let path = format!("{folder}/{name}");
        if path.len() > LONGEST_PATH {
            return Err(Error::Path(path));
        }
        let is_folder = entry[11] & FOLDER != 0;
        let first = half(20) << 16 | half(26);
        let extents =
            if first == 0 && size == 0 && !is_folder { Vec::new() } else { self.chain(first)? };
        if !is_folder && size.div_ceil(self.cluster_size) != extents.len() {
            return Err(Error::Cluster(first));
        }
        Ok(Node { path, is_folder, extents, size, entry: 0 })
    }

    /// Where the clusters of a chain stand. Marks them as used; one that is used already is an
    /// error, so no loop is endless.
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

/// What is needed to write.
impl Tree<'_> {
    /// What follows a cluster; 0 if nobody has taken it.
    pub fn next(&self, number: u32) -> Option<u32> {
        Some(le::u32_at(self.fat, number as usize * 4)? & 0x0FFF_FFFF)
    }

    /// Where a cluster stands, in bytes.
    pub fn place(&self, number: u32) -> usize {
        self.data + (number as usize - 2) * self.cluster_size
    }

    /// The number of the cluster that stands there.
    pub fn number(&self, place: usize) -> usize {
        (place - self.data) / self.cluster_size + 2
    }

    /// Where each copy of the table starts, in bytes.
    pub fn copies(&self) -> impl Iterator<Item = usize> {
        (self.reserved..self.data).step_by(self.fat.len())
    }
}

/// The name of eight and three characters; `None` if it is not ASCII.
fn short_name(entry: &[u8; ENTRY]) -> Option<String> {
    let name = std::str::from_utf8(&entry[..11]).ok()?.is_ascii().then_some(&entry[..11])?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches(' ').to_owned();
    let (base, extension) = (text(&name[..8]), text(&name[8..]));
    Some(if extension.is_empty() { base } else { format!("{base}.{extension}") })
}
