//! Grows DATA to the end of its disk. Each step can be interrupted: the next boot continues. On a
//! disk that still has its image's [identifiers](identity), those change in the same write.
//!
//! The backup of the partition table is written at the end of the disk and flushed, then the
//! primary; then the kernel gets the new size; then the file system grows while it is mounted.

use std::fs::File;

use osbuild_abi::disk::{ALIGNMENT, DATA as LABEL};
use osbuild_abi::paths::DATA;
use osbuild_disks::ioctl;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::gpt::Table;
use rustix::fs::statvfs;

use super::disks::{self, Disk, Partition};
use super::identity;
use crate::sys;

/// Grows the partition to the end of its disk, if it is the last one.
pub fn partition(disk: &Disk, data: &Partition) -> Outcome {
    let (label, geometry) = disk.label()?;
    check(label.table(), data)?;
    let (mut table, mut writes) = label.grow(ALIGNMENT).explain("grow the partition")?;
    if let Some(own) = identity::of_table(&table)? {
        writes = label.change_to(&own).explain("change the disk's identifiers")?;
        table = own;
    }
    disk.write(&writes)?;
    let entry = table.partitions.iter().find(|entry| entry.number == data.number);
    let entry = entry.ok_or_else(|| Failure::new(format!("partition {} is gone", data.number)))?;
    let (start, length) =
        (entry.first * geometry.sector_size(), entry.sectors() * geometry.sector_size());
    if length == disks::size(&data.name)? {
        return Ok(());
    }
    let device = disk.device();
    let file = File::open(&device).explain(format_args!("open {}", device.display()))?;
    ioctl::resize_partition(&file, data.number, start, length)
        .explain(format_args!("tell the kernel that {} has grown", data.name))
}

/// Refuses to grow any partition except DATA.
fn check(table: &Table, data: &Partition) -> Outcome {
    match table.last() {
        Some(last) if last.number == data.number && last.name == LABEL => Ok(()),
        _ => Err(Failure::new(format!("{LABEL} is not the last partition and stays as it is"))),
    }
}

/// Grows DATA's mounted file system to its partition. Returns a line for the console if it grew.
pub fn file_system(data: &Partition) -> Outcome<Option<String>> {
    file_system_at(DATA, disks::size(&data.name)?)
}

/// Grows the file system that is mounted there to its device, which has this size in bytes. Returns
/// a line for the console if it grew.
pub fn file_system_at(path: &str, device: u64) -> Outcome<Option<String>> {
    let before = size(path)?;
    let root = File::open(path).explain(format_args!("open {path}"))?;
    sys::ext4_resize(&root, device / before.block).explain("grow the file system")?;
    let after = size(path)?;
    Ok((after.bytes > before.bytes)
        .then(|| format!("grown from {} MiB to {} MiB", before.bytes >> 20, after.bytes >> 20)))
}

struct Size {
    block: u64,
    bytes: u64,
}

fn size(path: &str) -> Outcome<Size> {
    let found = statvfs(path).explain(format_args!("look at {path}"))?;
    Ok(Size { block: found.f_frsize, bytes: found.f_blocks * found.f_frsize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_formats::gpt::guid_from_name;

    fn table(names: &[&str]) -> Table {
        let entry = |(index, name): (usize, &&str)| osbuild_formats::gpt::Partition {
            number: index as u32 + 1,
            type_guid: guid_from_name("type"),
            guid: guid_from_name(name),
            first: 2048 * (index as u64 + 1),
            last: 2048 * (index as u64 + 1) + 2047,
            attributes: 0,
            name: (*name).to_owned(),
        };
        Table {
            disk_guid: guid_from_name("disk"),
            partitions: names.iter().enumerate().map(entry).collect(),
        }
    }

    fn data(number: u32) -> Partition {
        Partition { name: format!("vda{number}"), number, label: LABEL.to_owned() }
    }

    #[test]
    fn only_the_last_partition_grows_and_only_if_it_is_data() {
        assert!(check(&table(&["ESP", "SLOT-A", "SLOT-B", "DATA"]), &data(4)).is_ok());
        assert!(check(&table(&["ESP", "DATA", "SLOT-A"]), &data(2)).is_err());
        assert!(check(&table(&["ESP", "other"]), &data(2)).is_err());
        assert!(check(&table(&[]), &data(1)).is_err());
    }
}
