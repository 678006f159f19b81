//! The disks of this machine, from `/sys`.

use crate::contents::contents;
use std::fs;
use std::path::{Path, PathBuf};

/// The unit of sizes below `/sys`, independent of the disk's sector size.
const SYSFS_SECTOR: u64 = 512;

/// The folder with the kernel's disks and partitions.
const CLASS: &str = "/sys/class/block";

/// Name prefixes of block devices that are not disks: memory, floppies, optical drives, and devices
/// made of other disks.
pub const NOT_DISKS: [&str; 6] = ["ram", "zram", "fd", "sr", "dm-", "md"];

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its device file.
    pub device: PathBuf,
    /// Its name in the kernel.
    pub name: String,
    /// The manufacturer's model name, or the file of a loop device.
    pub model: Option<String>,
    /// The manufacturer's serial number.
    pub serial: Option<String>,
    /// The sequence number of this disk, or of the medium in it. Another disk or medium has another
    /// number, even if it gets the same name. `None` before Linux 5.15.
    pub diskseq: Option<u64>,
    /// The bus that it is connected to.
    pub bus: String,
    /// Its size in bytes.
    pub size: u64,
    /// Logical sector size in bytes.
    pub sector_size: u32,
    /// Whether it is removable.
    pub is_removable: bool,
    /// Whether it is write-protected.
    pub is_read_only: bool,
    /// Its contents in words.
    pub contents: String,
}

/// Lists all disks with a medium, in the order of their names.
pub fn all() -> Vec<Disk> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| !NOT_DISKS.iter().any(|other| name.starts_with(other)));
    let mut disks: Vec<Disk> =
        names.filter_map(|name| Disk::named(&name)).filter(|disk| disk.size > 0).collect();
    disks.sort_by(|one, other| one.name.cmp(&other.name));
    disks
}

impl Disk {
    /// Returns the disk with this name in the kernel; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        let folder = Path::new(CLASS).join(name).canonicalize().ok()?;
        let text = |file: &str| {
            Some(fs::read_to_string(folder.join(file)).ok()?.trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        let number = |file: &str| text(file)?.parse::<u64>().ok();
        let kind = text("device/type").unwrap_or_default();
        let model = [
            text("device/vendor").filter(|vendor| !vendor.starts_with("0x")),
            text("device/model").or(text("device/name")),
        ];
        let model = model.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let disk = Disk {
            device: device_file(name),
            name: name.to_owned(),
            model: Some(model).filter(|model| !model.is_empty()).or(text("loop/backing_file")),
            serial: text("device/serial")
                .or(text("serial"))
                .or_else(|| vital_product_data(&folder)),
            diskseq: number("diskseq"),
            bus: bus(&folder.to_string_lossy(), &kind).to_owned(),
            size: number("size")? * SYSFS_SECTOR,
            sector_size: u32::try_from(number("queue/logical_block_size")?).ok()?,
            // The kernel does not mark a card in its slot as removable.
            is_removable: number("removable") == Some(1) || kind == "SD",
            is_read_only: number("ro") == Some(1),
            contents: String::new(),
        };
        Some(Disk { contents: contents(&disk.device, &folder), ..disk })
    }
}

/// Returns the device file for a name in the kernel, which has `!` where a path has `/`.
pub fn device_file(name: &str) -> PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

/// Reads the serial number of a SCSI or SATA disk: its page 0x80 of vital product data is four
/// bytes and the text (SPC-5, 7.7.16).
fn vital_product_data(folder: &Path) -> Option<String> {
    let page = fs::read(folder.join("device/vpd_pg80")).ok()?;
    let text = String::from_utf8_lossy(page.get(4..)?)
        .trim_matches(|c: char| c.is_whitespace() || c == '\0')
        .to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the bus of a disk, from its path in the device tree and from a card's type.
fn bus(folder: &str, kind: &str) -> &'static str {
    let buses = [
        ("/usb", "usb"),
        ("/nvme/", "nvme"),
        ("/ata", "sata"),
        ("/mmc_host/", if kind == "SD" { "sd card" } else { "mmc" }),
        ("/virtio", "virtio"),
        ("/virtual/block/loop", "loop"),
        ("/virtual/", "virtual"),
    ];
    buses.into_iter().find(|(place, _)| folder.contains(place)).map_or("scsi", |(_, bus)| bus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bus_follows_from_the_path_in_the_device_tree() {
        let pci = "/sys/devices/pci0000:00/0000:00:1";
        for (place, kind, expected) in [
            ("4.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb", "0", "usb"),
            ("7.0/ata1/host0/target0:0:0/0:0:0:0/block/sda", "0", "sata"),
            ("d.0/0000:01:00.0/nvme/nvme0/nvme0n1", "", "nvme"),
            ("2.0/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0", "SD", "sd card"),
            ("2.0/mmc_host/mmc1/mmc1:0001/block/mmcblk1", "MMC", "mmc"),
            ("6.0/virtio3/block/vda", "", "virtio"),
            ("5.0/host4/target4:2:0/4:2:0:0/block/sdc", "0", "scsi"),
        ] {
            assert_eq!(bus(&format!("{pci}{place}"), kind), expected, "{place}");
        }
        assert_eq!(bus("/sys/devices/virtual/block/loop3", ""), "loop");
    }
}
