//! The disks that the kernel sees, and which of them the node was booted from.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use osbuild_abi::disk::DATA;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::gpt::{Geometry, Label, Write};
use rustix::fs::OFlags;
use uuid::Uuid;

/// The unit of sizes below `/sys`, independent of a disk's own sectors.
const SYSFS_SECTOR: u64 = 512;
/// The size of the largest sectors of any disk in bytes.
const MAX_SECTOR: usize = 4096;

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its name in the kernel.
    pub name: String,
    /// Its GUID in the partition table, if the table could be read.
    pub guid: Option<Uuid>,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

/// A partition of a GPT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name in the kernel.
    pub name: String,
    /// Its number in the table, from 1.
    pub number: u32,
    /// Its name in the table.
    pub label: String,
}

impl Disk {
    /// Its device file.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Its partition table, and the sizes of the disk.
    pub fn label(&self) -> Outcome<(Label, Geometry)> {
        let sector_size = number(&self.name, "queue/logical_block_size")?;
        let geometry = Geometry::new(sector_size, size(&self.name)?);
        let geometry = geometry.explain(format_args!("look at disk {}", self.name))?;
        let mut file =
            File::open(self.device()).explain(format_args!("open {}", self.device().display()))?;
        let label = Label::read(&mut file, geometry)
            .explain(format_args!("read the partition table of {}", self.name))?;
        Ok((label, geometry))
    }

    /// Writes to its partition table in this order, each write on the medium before the next
    /// begins: the order makes a power cut harmless.
    pub fn write(&self, writes: &[Write]) -> Outcome {
        let device = self.device();
        let file = File::options()
            .read(true)
            .write(true)
            .open(&device)
            .explain(format_args!("open {}", device.display()))?;
        for write in writes {
            file.write_all_at(&write.bytes, write.offset)
                .and_then(|()| file.sync_all())
                .explain(format_args!("write the partition table of {}", self.name))?;
        }
        // A worn disk may confirm a write and keep the old bytes, which the page cache would hide
        // until the next boot.
        let kept =
            File::options().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&device);
        let kept = kept
            .and_then(|file| has_kept(&file, writes))
            .explain(format_args!("read {} again", device.display()))?;
        if kept {
            Ok(())
        } else {
            Err(Failure::new(format!("disk {} does not keep its writes", self.name)))
        }
    }

    /// Reads its GUID from its table: the kernel does not show it.
    fn with_guid(mut self) -> Disk {
        // A disk whose table only the kernel can read was not made by the builder.
        self.guid = self.label().ok().map(|(label, _)| label.table().disk_guid);
        self
    }
}

impl Partition {
    /// Its device file.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

/// Whether a file has the bytes that were written last to each place.
fn has_kept(file: &File, writes: &[Write]) -> io::Result<bool> {
    for (index, write) in writes.iter().enumerate() {
        let is_last = writes[index + 1..].iter().all(|later| later.offset != write.offset);
        if is_last && read_direct(file, write.offset, write.bytes.len())? != write.bytes {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads past the page cache, into memory that is aligned to the disk's sectors.
fn read_direct(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut room = vec![0; length + MAX_SECTOR];
    let start = room.as_ptr().align_offset(MAX_SECTOR);
    file.read_exact_at(&mut room[start..start + length], offset)?;
    Ok(room[start..start + length].to_vec())
}

/// The size in bytes of a disk or a partition, by its name in the kernel.
pub fn size(name: &str) -> Outcome<u64> {
    Ok(number(name, "size")? * SYSFS_SECTOR)
}

fn number(name: &str, file: &str) -> Outcome<u64> {
    let path = Path::new("/sys/class/block").join(name).join(file);
    let text = fs::read_to_string(&path).explain(format_args!("read {}", path.display()))?;
    text.trim().parse().explain(format_args!("read {}", path.display()))
}

/// All disks that have partitions, in the order of their names.
pub fn all() -> Vec<Disk> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    let mut disks: Vec<Disk> = entries.flatten().filter_map(|entry| disk(&entry.path())).collect();
    disks.sort_by(|one, other| one.name.cmp(&other.name));
    disks
}

fn disk(folder: &Path) -> Option<Disk> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let entries = fs::read_dir(folder).ok()?;
    let partitions: Vec<Partition> =
        entries.flatten().filter_map(|entry| partition(&entry.path())).collect();
    (!partitions.is_empty()).then(|| Disk { name, guid: None, partitions }.with_guid())
}

fn partition(folder: &Path) -> Option<Partition> {
    let uevent = fs::read_to_string(folder.join("uevent")).ok()?;
    let property =
        |key: &str| uevent.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let number = property("PARTN")?.parse().ok()?;
    let label = property("PARTNAME").unwrap_or_default().to_owned();
    Some(Partition { name: folder.file_name()?.to_str()?.to_owned(), number, label })
}

/// The disk with DATA: the one that the node was booted from, or the only one if that is unknown.
///
/// The kernel finds a disk on USB seconds after those inside the machine, so no other disk takes
/// the place of the one that was booted.
pub fn choose(disks: Vec<Disk>, booted: Option<Uuid>) -> Outcome<(Disk, Partition)> {
    let mut found = Vec::new();
    for disk in disks.into_iter().filter(|disk| booted.is_none() || disk.guid == booted) {
        if let Some(partition) =
            disk.partitions.iter().find(|partition| partition.label == DATA).cloned()
        {
            found.push((disk, partition));
        }
    }
    match (found.pop(), found.pop()) {
        (Some(one), None) => Ok(one),
        (Some((one, _)), Some((other, _))) => {
            let names = format!("{} and {}", other.name, one.name);
            Err(Failure::new(format!(
                "disks {names} both have a partition {DATA}, and the booted one is unknown"
            )))
        }
        (None, _) => Err(Failure::new(match booted {
            Some(guid) => format!(
                "the disk {guid}, from which the node was booted, is missing or has no partition \
                 {DATA}"
            ),
            None => format!("no disk has a partition {DATA}"),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, guid: Option<u128>, labels: &[&str]) -> Disk {
        let partition = |(index, label): (usize, &&str)| Partition {
            name: format!("{name}{}", index + 1),
            number: index as u32 + 1,
            label: (*label).to_owned(),
        };
        let partitions = labels.iter().enumerate().map(partition).collect();
        Disk { name: name.to_owned(), guid: guid.map(Uuid::from_u128), partitions }
    }

    #[test]
    fn a_disk_that_does_not_keep_its_writes_is_detected() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 8192], 0).unwrap();
        let write = |offset, byte| Write { offset, bytes: vec![byte; 512] };
        assert!(has_kept(&file, &[write(512, 1), write(512, 7), write(4096, 7)]).unwrap());
        assert!(!has_kept(&file, &[write(512, 7), write(512, 1)]).unwrap());
    }

    #[test]
    fn the_disk_that_was_booted_wins_over_its_twin() {
        let disks =
            vec![disk("sda", Some(1), &["ESP", "DATA"]), disk("sdb", Some(2), &["ESP", "DATA"])];
        assert_eq!(choose(disks, Some(Uuid::from_u128(2))).unwrap().1.name, "sdb2");
    }

    #[test]
    fn the_data_partition_of_another_disk_is_not_used() {
        let disks = vec![disk("sda", Some(1), &["ESP"]), disk("sdb", Some(2), &["ESP", "DATA"])];
        assert!(choose(disks, Some(Uuid::from_u128(1))).is_err());
    }

    #[test]
    fn a_missing_disk_is_waited_for_although_its_twin_is_there() {
        let twin = disk("nvme0n1", Some(1), &["ESP", "DATA"]);
        assert!(choose(vec![twin.clone()], Some(Uuid::from_u128(2))).is_err());
        let stick = disk("sda", Some(2), &["ESP", "DATA"]);
        assert_eq!(choose(vec![twin, stick], Some(Uuid::from_u128(2))).unwrap().1.name, "sda2");
    }

    #[test]
    fn without_a_boot_report_there_has_to_be_one_disk_only() {
        let one = disk("vda", None, &["ESP", "DATA"]);
        assert_eq!(
            choose(vec![disk("vdb", None, &["x"]), one.clone()], None).unwrap().1.name,
            "vda2"
        );
        assert!(choose(vec![one, disk("vdb", None, &["DATA"])], None).is_err());
        assert_eq!(choose(vec![], None).unwrap_err().to_string(), "no disk has a partition DATA");
    }
}
