//! A volume as a whole: made from a list of files, and read back into one.

use std::collections::BTreeSet;
use std::io::{Cursor, Write};

use fatfs::{
    Date, DateTime, FatType, FileSystem, FormatVolumeOptions, FsOptions, Time, TimeProvider,
};

use super::tree::{DELETED, ENTRY, Tree};
use super::{Error, LEAST_CLUSTERS};
use crate::le;

/// A file on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File<T> {
    /// The absolute path.
    pub path: String,
    /// What the file holds.
    pub bytes: T,
}

/// A volume that is to be made.
#[derive(Clone, Debug)]
pub struct Volume<'a> {
    /// Bytes in a sector, the same as the disk's: 512 or 4096.
    pub sector_size: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its label: up to 11 capitals, digits and `-`.
    pub label: &'a str,
    /// Its serial number.
    pub id: u32,
}

/// Clusters larger than this are not understood everywhere.
const MOST_CLUSTER: u64 = 32 << 10;

/// The least size in bytes of a FAT32 volume: 33 MiB on sectors of 512 bytes, 257 MiB on sectors of
/// 4096.
pub fn least_size(sector_size: u64) -> u64 {
    size_for(sector_size).next_multiple_of(1 << 20)
}

/// The least size in bytes of a volume with such clusters: enough clusters, two entries of 4 bytes
/// for each, and the reserved sectors.
fn size_for(cluster_size: u64) -> u64 {
    LEAST_CLUSTERS * (cluster_size + 8) + (64 << 10)
}

impl Volume<'_> {
    /// Makes the volume with these files and the folders that hold them. Folders and files get the
    /// time 1980-01-01.
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

    /// The largest cluster with which the volume still has as many as FAT32 must have: few clusters
    /// are written fastest.
    fn cluster_size(&self) -> Result<u64, Error> {
        if self.sector_size != 512 && self.sector_size != 4096 {
            return Err(Error::SectorSize(self.sector_size));
        }
        if self.size / self.sector_size > u64::from(u32::MAX) {
            return Err(Error::TooLarge(self.size));
        }
        let mut cluster_size = MOST_CLUSTER;
        while self.size < size_for(cluster_size) {
            if cluster_size == self.sector_size {
                return Err(Error::TooSmall {
                    size: self.size,
                    least: least_size(self.sector_size),
                });
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

/// The folders that hold the files, each before those within it. Refuses paths that no volume can
/// hold.
fn folders<T>(files: &[File<T>]) -> Result<BTreeSet<&str>, Error> {
    let mut folders = BTreeSet::new();
    let mut names = BTreeSet::new();
    for File { path, .. } in files {
        let plain = |name: &str| !matches!(name, "" | "." | "..");
        // Two names that differ in case are the same file.
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
    // Counts the free clusters, so that the volume says how many they are.
    volume.stats()?;
    Ok(volume.unmount()?)
}

/// `fatfs` gives the entries `.` and `..` long names and lets `..` refer to the root by its number;
/// both are errors to fsck. Puts the two entries where they belong and frees the places of their
/// long names.
fn straighten_dots(bytes: &mut [u8]) -> Result<(), Error> {
    for node in Tree::parse(bytes)?.nodes()?.into_iter().filter(|node| node.is_folder) {
        let start =
            *node.extents.first().expect("a folder has a cluster, as the reader has checked");
        let entries = &mut bytes[start..start + 4 * ENTRY];
        entries.copy_within(ENTRY..2 * ENTRY, 0);
        entries.copy_within(3 * ENTRY..4 * ENTRY, ENTRY);
        for unused in entries[2 * ENTRY..].chunks_exact_mut(ENTRY) {
            unused.fill(0);
            unused[0] = DELETED;
        }
        if node.path.rfind('/') == Some(0) {
            le::put(entries, ENTRY + 20, [0; 2]);
            le::put(entries, ENTRY + 26, [0; 2]);
        }
    }
    Ok(())
}

/// The first moment that FAT can name.
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
