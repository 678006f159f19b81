//! `DeviceInfos.osbuild`: devices of PCI and USB, disks, and the machine as its firmware describes
//! it. A container has sysfs for reading, without a right of its own.

mod class;
mod disk;
pub mod text;

use super::ObservedType;
use super::publisher::Publisher;
use super::rows::Rows;
use crate::settings::{column, names};
use osbuild_cosi::v1::DeviceInfoSpec;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// The type.
pub const TYPE: ObservedType = ObservedType {
    names: names("DeviceInfos", "DeviceInfo"),
    columns: &[
        column("Class", "{.class}"),
        column("Vendor", "{.vendorId}"),
        column("Product", "{.productId}"),
        column("Drivers", "{.drivers[:]}"),
        column("Model", "{.model}"),
        column("Serial", "{.serial}"),
        column("Bytes", "{.bytes}"),
        column("Transport", "{.transport}"),
    ],
    max_count: 512,
};

/// How old a resource may be. Some drivers ask the disk for its serial number at each reading.
const INTERVAL: Duration = Duration::from_secs(10);

/// The file system with the kernel's devices (sysfs(5)).
const SYSFS: &str = "/sys";

/// The folders in it with all devices of a bus or class, which are links to the tree of devices.
const DISKS: &str = "block";
const PCI_DEVICES: &str = "bus/pci/devices";
const USB_DEVICES: &str = "bus/usb/devices";

/// The folder with what the firmware says of its machine (SMBIOS).
const FIRMWARE: &str = "class/dmi/id";
const MACHINE: &str = "machine";
const MACHINE_ID: &str = "machine/dmi";

const PCI: &str = "pci";
const USB: &str = "usb";

/// The classes of USB that say to look at the interfaces: none, and several.
const OF_INTERFACES: [&str; 2] = ["00", "ef"];

/// The order in which devices are left out, the last first.
const RANKS: [&str; 4] = [MACHINE, disk::DISK, PCI, USB];

/// Reads a device in the tree of devices: its identifier and its spec.
type Read = fn(&Path) -> Option<(String, DeviceInfoSpec)>;

/// Observes until the process ends. A disk that does not answer keeps this thread waiting alone.
pub fn observe(publisher: &Publisher) {
    loop {
        publisher.publish(&TYPE, read(Path::new(SYSFS)));
        sleep(INTERVAL);
    }
}

/// Reads the devices in this file system.
fn read(sysfs: &Path) -> Result<Rows<DeviceInfoSpec>, String> {
    let all: [(&str, Read); 3] = [(DISKS, disk::read), (PCI_DEVICES, pci), (USB_DEVICES, usb)];
    let mut rows = Rows::at_most(TYPE.max_count);
    let found = all.into_iter().flat_map(|(class, read)| {
        folders(&sysfs.join(class)).into_iter().filter_map(move |folder| read(&folder))
    });
    for (id, spec) in found.chain(machine(&sysfs.join(FIRMWARE))) {
        let rank = RANKS.iter().position(|kind| *kind == spec.kind).unwrap_or(RANKS.len());
        rows.insert(u32::try_from(rank).unwrap_or(u32::MAX), id, spec);
    }
    match sysfs.join(DISKS).is_dir() || sysfs.join(PCI_DEVICES).is_dir() {
        true => Ok(rows),
        false => Err(format!("{} shows no devices", sysfs.display())),
    }
}

/// The devices of a class, in the tree of devices; none if the kernel does not have the class.
fn folders(class: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    // One that has gone meanwhile is missing.
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| entry.path().canonicalize().ok()).collect();
    found.sort();
    found
}

fn pci(folder: &Path) -> Option<(String, DeviceInfoSpec)> {
    let class_id = text::hexadecimal(folder, "class");
    let spec = DeviceInfoSpec {
        kind: PCI.to_owned(),
        class: class::pci(&class_id),
        class_id,
        vendor_id: text::hexadecimal(folder, "vendor"),
        product_id: text::hexadecimal(folder, "device"),
        drivers: driver(folder).into_iter().collect(),
        modalias: text::of(folder, "modalias"),
        parent: parent(folder),
        ..DeviceInfoSpec::default()
    };
    // A device that goes while it is read has no vendor any more.
    Some((id(PCI, folder)?, spec)).filter(|(_, spec)| !spec.vendor_id.is_empty())
}

/// Reads a device of USB. Its interfaces are in the same list, and have no vendor.
fn usb(folder: &Path) -> Option<(String, DeviceInfoSpec)> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_interface = |entry: &PathBuf| entry.join("bInterfaceNumber").exists();
    let mut interfaces: Vec<PathBuf> = entries.filter(is_interface).collect();
    interfaces.sort();
    let mut class_id = text::hexadecimal(folder, "bDeviceClass");
    let first = interfaces.first().filter(|_| OF_INTERFACES.contains(&class_id.as_str()));
    if let Some(interface) = first {
        class_id = text::hexadecimal(interface, "bInterfaceClass");
    }
    let mut drivers: Vec<String> = interfaces.iter().filter_map(|one| driver(one)).collect();
    drivers.sort();
    drivers.dedup();
    let modalias = interfaces.first().map(|interface| text::of(interface, "modalias"));
    let spec = DeviceInfoSpec {
        kind: USB.to_owned(),
        class: class::usb(&class_id),
        class_id,
        vendor_id: text::hexadecimal(folder, "idVendor"),
        product_id: text::hexadecimal(folder, "idProduct"),
        drivers,
        modalias: modalias.unwrap_or_default(),
        vendor: text::of(folder, "manufacturer"),
        model: text::of(folder, "product"),
        serial: text::of(folder, "serial"),
        parent: parent(folder),
        ..DeviceInfoSpec::default()
    };
    Some((id(USB, folder)?, spec)).filter(|(_, spec)| !spec.vendor_id.is_empty())
}

/// The machine, if its firmware describes it.
fn machine(folder: &Path) -> Option<(String, DeviceInfoSpec)> {
    let text = |file: &str| text::of(folder, file);
    let firmware = ["bios_vendor", "bios_version", "bios_date"].map(text);
    let firmware: Vec<String> = firmware.into_iter().filter(|text| !text.is_empty()).collect();
    let spec = DeviceInfoSpec {
        vendor: text("sys_vendor"),
        model: text("product_name"),
        version: text("product_version"),
        serial: text("product_serial"),
        uuid: text("product_uuid"),
        firmware: firmware.join(" "),
        ..DeviceInfoSpec::default()
    };
    let is_described = spec != DeviceInfoSpec::default();
    let spec = DeviceInfoSpec { kind: MACHINE.to_owned(), ..spec };
    is_described.then(|| (MACHINE_ID.to_owned(), spec))
}

/// The identifier of a device. The kernel has `!` for `/` in the name of a disk.
fn id(kind: &str, folder: &Path) -> Option<String> {
    let name = text::printable(folder.file_name()?.as_encoded_bytes());
    Some(format!("{kind}/{name}"))
}

/// The name that a link in the folder of a device leads to.
fn target(folder: &Path, link: &str) -> Option<String> {
    let target = fs::read_link(folder.join(link)).ok()?;
    Some(text::printable(target.file_name()?.as_encoded_bytes()))
}

/// The driver of a device.
fn driver(folder: &Path) -> Option<String> {
    target(folder, "driver")
}

/// The driver of the nearest device above that has one.
fn driver_above(folder: &Path) -> Option<String> {
    folder.ancestors().skip(1).find_map(driver)
}

/// The identifier of the nearest device of PCI or USB above; empty if there is none.
fn parent(folder: &Path) -> String {
    let found = folder.ancestors().skip(1).find_map(|above| {
        let bus = target(above, "subsystem")?;
        let is_device = bus == PCI || bus == USB && above.join("idVendor").exists();
        is_device.then(|| id(&bus, above)).flatten()
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests;
