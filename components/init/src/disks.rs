//! The disks that the kernel sees, and which of them the node was booted from.

use std::fs;
use std::path::{Path, PathBuf};

use osbuild_abi::disk::DATA;
use osbuild_formats::gpt::{Geometry, Label};

use crate::failure::{Explain, Failure, Outcome};
use crate::variable;

/// The volatile EFI variable in which systemd's stub names the partition that it was loaded from (Boot Loader Interface).
const BOOTED_PARTITION: &str = "/sys/firmware/efi/efivars/LoaderDevicePartUUID-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// The unit of a disk's size below `/sys`, whatever its own sectors are.
const SYSFS_SECTOR: u64 = 512;

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The kernel's name of it.
    pub name: String,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

/// A partition of a GPT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The kernel's name of it.
    pub name: String,
    /// Its number in the table, from 1.
    pub number: u32,
    /// Its name in the table.
    pub label: String,
    /// Its GUID in the table, in lower case, if that could be read.
    pub guid: Option<String>,
}

impl Disk {
    /// Its device file.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Its partition table, and what the disk is like.
    pub fn label(&self) -> Outcome<(Label, Geometry)> {
        let sector_size = number(&self.name, "queue/logical_block_size")?;
        let geometry = Geometry::new(sector_size, size(&self.name)?);
        let geometry = geometry.explain(format_args!("look at disk {}", self.name))?;
        let mut file = fs::File::open(self.device()).explain(format_args!("open {}", self.device().display()))?;
        let label = Label::read(&mut file, geometry).explain(format_args!("read the partition table of {}", self.name))?;
        Ok((label, geometry))
    }

    /// Takes the GUIDs of its partitions from its table: our kernel does not tell them.
    fn with_guids(mut self) -> Disk {
        // A disk whose table only the kernel can read is not one of ours.
        if let Ok((label, _)) = self.label() {
            for entry in &label.table().partitions {
                let found = self.partitions.iter_mut().find(|partition| partition.number == entry.number);
                if let Some(partition) = found {
                    partition.guid = Some(entry.guid.to_string());
                }
            }
        }
        self
    }
}

impl Partition {
    /// Its device file.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

/// The size of a disk or a partition in bytes, as the kernel knows it. `name` is the kernel's.
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
    let partitions: Vec<Partition> = entries.flatten().filter_map(|entry| partition(&entry.path())).collect();
    (!partitions.is_empty()).then(|| Disk { name, partitions }.with_guids())
}

fn partition(folder: &Path) -> Option<Partition> {
    let uevent = fs::read_to_string(folder.join("uevent")).ok()?;
    let property = |key: &str| uevent.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let number = property("PARTN")?.parse().ok()?;
    let label = property("PARTNAME").unwrap_or_default().to_owned();
    Some(Partition { name: folder.file_name()?.to_str()?.to_owned(), number, label, guid: None })
}

/// The GUID of the partition that the stub was loaded from, in lower case, if it told.
pub fn booted_partition() -> Option<String> {
    variable::guid(&fs::read(BOOTED_PARTITION).ok()?)
}

/// The disk with DATA: the one that the node was booted from, or when that is not known the only one there is.
pub fn choose(disks: Vec<Disk>, booted: Option<&str>) -> Outcome<(Disk, Partition)> {
    let is_booted =
        |disk: &Disk| disk.partitions.iter().any(|partition| partition.guid.is_some() && partition.guid.as_deref() == booted);
    let known = disks.iter().any(is_booted);
    let mut found = Vec::new();
    for disk in disks.into_iter().filter(|disk| !known || is_booted(disk)) {
        if let Some(partition) = disk.partitions.iter().find(|partition| partition.label == DATA).cloned() {
            found.push((disk, partition));
        }
    }
    match (found.pop(), found.pop()) {
        (Some(one), None) => Ok(one),
        (Some((one, _)), Some((other, _))) => {
            let names = format!("{} and {}", other.name, one.name);
            Err(Failure::new(format!(
                "disks {names} both have a partition {DATA}, and the firmware does not tell which was booted"
            )))
        }
        (None, _) => Err(Failure::new(format!("no disk has a partition {DATA}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, guid: Option<&str>, labels: &[&str]) -> Disk {
        let partition = |(index, label): (usize, &&str)| Partition {
            name: format!("{name}{}", index + 1),
            number: index as u32 + 1,
            label: (*label).to_owned(),
            guid: guid.map(|guid| format!("{guid}{index}")),
        };
        Disk { name: name.to_owned(), partitions: labels.iter().enumerate().map(partition).collect() }
    }

    #[test]
    fn the_disk_that_was_booted_wins_over_its_twin() {
        let disks = vec![disk("sda", Some("a"), &["ESP", "DATA"]), disk("sdb", Some("b"), &["ESP", "DATA"])];
        assert_eq!(choose(disks, Some("b0")).unwrap().1.name, "sdb2");
    }

    #[test]
    fn a_data_partition_of_another_disk_is_not_taken() {
        let disks = vec![disk("sda", Some("a"), &["ESP"]), disk("sdb", Some("b"), &["ESP", "DATA"])];
        assert!(choose(disks, Some("a0")).is_err());
    }

    #[test]
    fn without_word_from_the_firmware_only_a_single_one_will_do() {
        let one = disk("vda", None, &["ESP", "DATA"]);
        assert_eq!(choose(vec![disk("vdb", None, &["x"]), one.clone()], None).unwrap().1.name, "vda2");
        assert!(choose(vec![one, disk("vdb", None, &["DATA"])], None).is_err());
        assert_eq!(choose(vec![], None).unwrap_err().to_string(), "no disk has a partition DATA");
    }
}
