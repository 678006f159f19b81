//! Disks, in the folder `block` of sysfs.

use super::{driver_above, id, parent, text};
use osbuild_cosi::v1::DeviceInfoSpec;
use std::path::Path;

/// The kind of disks.
pub const DISK: &str = "disk";

/// The unit of sizes in sysfs, independent of the disk's sectors.
const SECTOR: u64 = 512;

/// The folder of block devices that software makes: loop devices, memory, mappings of disks.
const MADE: &str = "/devices/virtual/block/";

/// Parts of a path in the tree of devices, and how a disk there is connected.
const TRANSPORTS: [(&str, &str); 6] = [
    ("/usb", "usb"),
    ("/nvme", "nvme"),
    ("/ata", "sata"),
    ("/mmc_host/", "mmc"),
    ("/virtio", "virtio"),
    ("/host", "scsi"),
];

/// Reads the disk in this folder of the tree of devices, unless software has made it, or it is one
/// of several ways to a disk.
pub fn read(folder: &Path) -> Option<(String, DeviceInfoSpec)> {
    let place = folder.to_string_lossy();
    if place.contains(MADE) || text::number(folder, "hidden") == 1 {
        return None;
    }
    let first = |files: &[&str]| {
        let texts = files.iter().map(|file| text::of(folder, file));
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    };
    let serial = first(&["device/serial", "serial"]);
    let serial = match serial.is_empty() {
        true => text::vital_product_data(&text::bytes(folder, "device/vpd_pg80")),
        false => serial,
    };
    let transport = TRANSPORTS.into_iter().find(|(part, _)| place.contains(part));
    // The vendor of a virtio or NVMe disk is a number, which its PCI device has.
    let vendor = text::of(folder, "device/vendor");
    let spec = DeviceInfoSpec {
        kind: DISK.to_owned(),
        vendor: if vendor.starts_with("0x") { String::new() } else { vendor },
        model: first(&["device/model", "device/name"]),
        serial,
        wwid: first(&["wwid", "device/wwid"]),
        drivers: driver_above(folder).into_iter().collect(),
        bytes: text::number(folder, "size").saturating_mul(SECTOR),
        transport: transport.map_or_else(String::new, |(_, name)| name.to_owned()),
        rotational: text::number(folder, "queue/rotational") == 1,
        read_only: text::number(folder, "ro") == 1,
        removable: text::number(folder, "removable") == 1,
        parent: parent(folder),
        ..DeviceInfoSpec::default()
    };
    Some((id(DISK, folder)?, spec))
}
