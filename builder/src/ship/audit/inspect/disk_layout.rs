//! The layout of a disk: its partitions, the boot program, and the slots with their UKIs.

use super::bounded;
use super::signature::Signature;
use super::slot::Slot;
use crate::engine::digest::Digest;
use crate::error::{Context, Error, Result};
use crate::report::bytes;
use osbuild_abi::disk::{DATA_TYPE, ESP_TYPE, SLOT_TYPE};
use osbuild_formats::fat;
use osbuild_formats::gpt::{self, Geometry, Health, Label};
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};

/// A disk with a GUID partition table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DiskLayout {
    /// Logical sector size in bytes.
    pub sector_size: u64,
    /// The disk's GUID.
    pub disk_guid: String,
    /// Why its partition table cannot be trusted. `None` if both copies are valid and equal, and
    /// the disk has no other data that firmware could use as a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_fault: Option<String>,
    /// Its partitions, in the order of their numbers.
    pub partitions: Vec<Partition>,
    /// The program that the firmware starts.
    pub boot: Boot,
    /// Its slots, in boot order.
    pub slots: Vec<Slot>,
}

/// The file that the firmware starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Boot {
    /// Its path on the EFI system partition.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
    /// Its signatures: empty for an unsigned program, and before they are read.
    pub signatures: Vec<Signature>,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Partition {
    /// Its number, from 1.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The meaning of its type GUID, or the GUID itself.
    #[serde(rename = "type")]
    pub purpose: String,
    /// Its own GUID.
    pub guid: String,
    /// Where it starts, in bytes.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its attribute bits, in hexadecimal.
    pub attributes: String,
}

/// A disk, and the programs on it that firmware verifies.
pub(super) struct OpenedDisk {
    /// The disk.
    pub disk: DiskLayout,
    /// The program that the firmware starts.
    pub boot: Vec<u8>,
    /// The paths of all files of the EFI system partition.
    pub esp: Vec<String>,
    /// The name of the slot with the UKI.
    pub slot: String,
    /// The UKI.
    pub uki: Vec<u8>,
    /// The UKIs of the other slots that can be booted, with their names.
    pub others: Vec<(String, Vec<u8>)>,
}

/// The sector size of a disk with a partition table; `None` for a file without one.
pub(super) fn sector_size(file: &mut File) -> Option<u64> {
    [512, 4096].into_iter().find(|size| {
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, *size).is_ok() && magic == *b"EFI PART"
    })
}

/// Reads the partition table, the boot program, and the UKI of the slot that boots first. Returns a
/// damaged UKI only if there is no other.
pub(super) fn read(file: &mut File, size: u64, sector_size: u64) -> Result<OpenedDisk> {
    let is_disk = file.metadata().is_ok_and(|about| about.file_type().is_block_device());
    let broken = |error| broken(size, is_disk, error);
    let geometry = Geometry::new(sector_size, size).map_err(broken)?;
    let label = Label::read(file, geometry).map_err(broken)?;
    let table = label.table();
    let partitions: Vec<Partition> =
        table.partitions.iter().map(|partition| look(partition, sector_size)).collect();
    let esp = partitions.iter().find(|partition| partition.purpose == "esp");
    let esp = esp.ok_or_else(|| Error::digest("the disk has no EFI system partition"))?;
    let files = esp_files(file, esp, size)?;
    let esp = files.iter().map(|file| file.path.clone()).collect();
    let program = boot_file(files)?;
    let (mut slots, mut whole, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    for slot in osbuild_slots::slots(table) {
        let (found, uki) = Slot::read(file, &slot, sector_size);
        let place = if found.fault.is_none() { &mut whole } else { &mut damaged };
        place.extend(uki.filter(|_| found.is_bootable()).map(|uki| (found.name.clone(), uki)));
        slots.push(found);
    }
    let nothing = || {
        slots.iter().fold(Error::digest("no slot of the disk can be booted"), |error, slot| {
            error.cause(slot)
        })
    };
    let mut ukis = whole.into_iter().chain(damaged);
    let (slot, uki) = ukis.next().ok_or_else(nothing)?;
    let others = ukis.collect();
    let digest = Digest::of(&program.bytes);
    let boot = Boot {
        path: program.path,
        size: digest.size(),
        sha256: digest.hex(),
        signatures: Vec::new(),
    };
    let table_fault = table_fault(file, &label, geometry)?;
    let disk = DiskLayout {
        sector_size,
        disk_guid: table.disk_guid.to_string(),
        table_fault,
        partitions,
        boot,
        slots,
    };
    Ok(OpenedDisk { disk, boot: program.bytes, esp, slot, uki, others })
}

/// Returns the fault of the partition table, if it has one. MBR partitions are a fault, as firmware
/// prefers them to those of the GPT.
fn table_fault(file: &mut File, label: &Label, geometry: Geometry) -> Result<Option<String>> {
    if label.health() != Health::Sound {
        let grown = "the first boot repairs this on a disk that is larger than its image";
        return Ok(Some(format!("the copies differ or one is damaged; {grown}")));
    }
    let is_alone = gpt::is_as_created(file, label.table(), geometry)
        .or_build(|| "cannot read the partition table".to_owned())?;
    Ok((!is_alone)
        .then(|| "it has other contents: boot code, MBR partitions or unknown bytes".to_owned()))
}

/// The error for a disk of `size` bytes, or for the file of an image, whose partition table cannot
/// be read.
fn broken(size: u64, is_disk: bool, error: gpt::Error) -> Error {
    match error {
        gpt::Error::BeyondDisk(_) | gpt::Error::OutOfRange(_) | gpt::Error::DiskTooSmall(_) => {
            let error = Error::digest(format!(
                "the disk has {}, but its partition table is for a larger one",
                bytes(size)
            ))
            .cause(error);
            error.hint(match is_disk {
                true => "write the image to a disk that is at least as large as the image",
                false => "the end of the image is missing: copy, download or build it again",
            })
        }
        error => Error::digest("the partition table is damaged").cause(error),
    }
}

fn look(partition: &osbuild_formats::gpt::Partition, sector_size: u64) -> Partition {
    let guid = partition.type_guid.to_string();
    let known = [(ESP_TYPE, "esp"), (SLOT_TYPE, "slot"), (DATA_TYPE, "data")];
    let purpose = known
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(&guid))
        .map_or(guid.clone(), |(_, name)| name.to_owned());
    Partition {
        number: partition.number,
        name: partition.name.clone(),
        purpose,
        guid: partition.guid.to_string(),
        start: partition.first * sector_size,
        size: partition.sectors() * sector_size,
        attributes: format!("{:#x}", partition.attributes),
    }
}

fn esp_files(file: &File, esp: &Partition, disk_size: u64) -> Result<Vec<fat::File<Vec<u8>>>> {
    if esp.start.checked_add(esp.size).is_none_or(|end| end > disk_size) {
        return Err(Error::digest("the EFI system partition extends past the end of the disk"));
    }
    let volume =
        bounded::read(file, esp.start, esp.size, bounded::MAX_ESP, "the EFI system partition")?;
    fat::read(&volume)
        .map_err(|error| Error::digest("the EFI system partition is damaged").cause(error))
}

/// The program that the firmware starts: the file at the path for removable media (UEFI 2.10,
/// 3.5.1.1).
fn boot_file(files: Vec<fat::File<Vec<u8>>>) -> Result<fat::File<Vec<u8>>> {
    let boot = files.into_iter().find(|file| {
        let path = file.path.trim_start_matches('/').to_ascii_uppercase();
        path.starts_with("EFI/BOOT/BOOT") && path.ends_with(".EFI")
    });
    boot.ok_or_else(|| Error::digest("the EFI system partition has no `EFI/BOOT/BOOT….EFI`"))
}
