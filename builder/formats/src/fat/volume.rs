//! A whole volume: made from a list of files, and read back into one.

use std::collections::BTreeSet;
use std::io::{Cursor, Write};

use fatfs::{
    Date, DateTime, FatType, FileSystem, FormatVolumeOptions, FsOptions, Time, TimeProvider,
};

use zerocopy::FromBytes;

use super::raw::{DirEntry, ENTRY};
use super::tree::{DELETED, Tree};
use super::{Error, MIN_CLUSTERS};

/// A file on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File<T> {
    /// The absolute path.
    pub path: String,
    /// Its contents.
    pub bytes: T,
}

/// The parameters of a volume.
#[derive(Clone, Debug)]
pub struct Volume<'a> {
    /// Bytes in a sector, the same as on the disk: 512 or 4096.
    pub sector_size: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its label: up to 11 capitals, digits and `-`.
    pub label: &'a str,
    /// Its serial number.
    pub id: u32,
}

/// The largest cluster in bytes that all readers support.
const MAX_CLUSTER: u64 = 32 << 10;

/// The minimum size in bytes of a FAT32 volume: 33 MiB on sectors of 512 bytes, 257 MiB on sectors
/// of 4096.
pub fn min_size(sector_size: u64) -> u64 {
    size_for(sector_size).next_multiple_of(1 << 20)
}

/// The minimum size in bytes of a volume with clusters of this size: the clusters, two table
/// entries of 4 bytes for each, and the reserved sectors.
fn size_for(cluster_size: u64) -> u64 {
    MIN_CLUSTERS * (cluster_size + 8) + (64 << 10)
}

impl Volume<'_> {
    /// Makes the volume with these files and their parent folders. All get the time 1980-01-01.
    pub fn write<T: AsRef<[u8]>>(&self, files: &[File<T>]) -> Result<Vec<u8>, Error> {
        let cluster_size = self.cluster_size()?;
        let folders = folders(files)?;
        self.check_room(files, folders.len(), cluster_size)?;
        let mut disk = Cursor::new(vec![0; self.size as usize]);
        let options = FormatVolumeOptions::new()
            .fat_type(FatType::Fat32)
            .bytes_per_sector(self.sector_size as u16)
            .bytes_per_cluster(cluster_size as u32)
            .volume_id(self.id)
            .volume_label(self.label_field()?);
        fatfs::format_volume(&mut disk, options)?;
        fill(&mut disk, &folders, files)?;
        let mut bytes = disk.into_inner();
        straighten_dots(&mut bytes)?;
        Ok(bytes)
    }

    /// The largest cluster size that gives the volume enough clusters for FAT32: the fewer
    /// clusters, the faster the writes.
    fn cluster_size(&self) -> Result<u64, Error> {
        if self.sector_size != 512 && self.sector_size != 4096 {
            return Err(Error::SectorSize(self.sector_size));
        }
        if self.size / self.sector_size > u64::from(u32::MAX) {
            return Err(Error::TooLarge(self.size));
        }
        let mut cluster_size = MAX_CLUSTER;
        while self.size < size_for(cluster_size) {
            if cluster_size == self.sector_size {
                return Err(Error::TooSmall { size: self.size, min: min_size(self.sector_size) });
            }
            cluster_size /= 2;
        }
        Ok(cluster_size)
    }

    fn check_room<T: AsRef<[u8]>>(
        &self,
        files: &[File<T>],
        folders: usize,
        cluster_size: u64,
    ) -> Result<(), Error> {
        let in_files: u64 = files
            .iter()
            .map(|file| (file.bytes.as_ref().len() as u64).next_multiple_of(cluster_size))
            .sum();
        // The root is a folder too.
        let needed = in_files + (folders as u64 + 1) * cluster_size;
        let room = (self.size - (64 << 10)) / (cluster_size + 8) * cluster_size;
        if needed > room { Err(Error::Full { needed, room }) } else { Ok(()) }
    }

    fn label_field(&self) -> Result<[u8; 11], Error> {
        let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=11).contains(&self.label.len()) || !self.label.bytes().all(plain) {
            return Err(Error::Label(self.label.to_owned()));
        }
        let mut field = [b' '; 11];
        field[..self.label.len()].copy_from_slice(self.label.as_bytes());
        Ok(field)
    }
}

/// Reads all files of a FAT32 volume, sorted by path.
pub fn read(volume: &[u8]) -> Result<Vec<File<Vec<u8>>>, Error> {
    let mut tree = Tree::parse(volume)?;
    let nodes = tree.nodes()?.into_iter().filter(|node| !node.is_folder);
    let mut files: Vec<_> =
        nodes.map(|node| File { bytes: tree.content(&node), path: node.path }).collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// Returns the parent folders of the files, each before its subfolders. Refuses invalid paths.
fn folders<T>(files: &[File<T>]) -> Result<BTreeSet<&str>, Error> {
    let mut folders = BTreeSet::new();
    let mut names = BTreeSet::new();
    for File { path, .. } in files {
        let plain = |name: &str| !matches!(name, "" | "." | "..");
        // Two names that differ in case name the same file.
        let is_new = names.insert(path.to_lowercase());
        if !path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(plain)) || !is_new {
            return Err(Error::Path(path.clone()));
        }
        folders.extend(
            path.match_indices('/')
                .map(|(end, _)| &path[..end])
                .filter(|folder| !folder.is_empty()),
        );
    }
    Ok(folders)
}

/// Writes folders and files into an empty volume, in the order of their paths.
fn fill<T: AsRef<[u8]>>(
    disk: &mut Cursor<Vec<u8>>,
    folders: &BTreeSet<&str>,
    files: &[File<T>],
) -> Result<(), Error> {
    disk.set_position(0);
    let volume = FileSystem::new(disk, FsOptions::new().time_provider(&Epoch))?;
    for folder in folders {
        volume.root_dir().create_dir(folder)?;
    }
    let mut files: Vec<&File<T>> = files.iter().collect();
    files.sort_by_key(|file| &file.path);
    for file in files {
        volume.root_dir().create_file(&file.path)?.write_all(file.bytes.as_ref())?;
    }
    // Computes the number of free clusters, which the volume then stores.
    volume.stats()?;
    Ok(volume.unmount()?)
}

/// Corrects the entries `.` and `..`: `fatfs` gives them long names and makes `..` refer to the
/// root by its cluster number, and fsck reports both as errors.
fn straighten_dots(bytes: &mut [u8]) -> Result<(), Error> {
    for node in Tree::parse(bytes)?.nodes()?.into_iter().filter(|node| node.is_folder) {
        let start = *node.extents.first().expect("the reader refuses a folder without a cluster");
        let entries = &mut bytes[start..start + 4 * ENTRY];
        entries.copy_within(ENTRY..2 * ENTRY, 0);
        entries.copy_within(3 * ENTRY..4 * ENTRY, ENTRY);
        for unused in entries[2 * ENTRY..].chunks_exact_mut(ENTRY) {
            unused.fill(0);
            unused[0] = DELETED;
        }
        if node.path.rfind('/') == Some(0) {
            let (dot_dot, _) = DirEntry::mut_from_prefix(&mut entries[ENTRY..])
                .expect("three more entries follow the first");
            dot_dot.set_first_cluster(0);
        }
    }
    Ok(())
}

/// The earliest time that FAT can store.
#[derive(Debug)]
struct Epoch;

impl TimeProvider for Epoch {
    fn get_current_date(&self) -> Date {
        Date { year: 1980, month: 1, day: 1 }
    }

    fn get_current_date_time(&self) -> DateTime {
        DateTime {
            date: self.get_current_date(),
            time: Time { hour: 0, min: 0, sec: 0, millis: 0 },
        }
    }
}
