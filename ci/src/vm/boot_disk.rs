//! A disk with an EFI system partition and, optionally, a slot.

use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Result};
use osbuild::plan::Architecture;
use osbuild::produce::image::removable_path;
use osbuild_abi::disk::{ESP, ESP_TYPE, SLOT_A, SLOT_TYPE};
use osbuild_formats::disk_image::{Content, DiskImage, Partition};
use osbuild_formats::fat::{File, Volume};
use osbuild_formats::gpt::guid_from_name;
use osbuild_slots::{Header, State};
use std::path::Path;

/// Bytes in a sector.
pub const SECTOR_SIZE: u32 = 512;

/// Size of each partition in bytes: larger than any UKI.
const SIZE: u64 = 192 << 20;

/// The state of the slot.
const GOOD: State = State { priority: 1, tries: 0, successful: true };

/// Writes a disk with these files on its system partition, and with a good slot that holds `uki` if
/// there is one.
pub fn write(path: &Path, files: &[File<Vec<u8>>], uki: Option<&[u8]>) -> Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    let volume = Volume { sector_size: SECTOR_SIZE.into(), size: SIZE, label: ESP, id: 1 };
    let esp = volume.write(files).or_build(cannot)?;
    let slot = uki.map(slot).transpose()?;
    let mut partitions = vec![partition(ESP, ESP_TYPE, 0, &esp)];
    partitions.extend(slot.as_ref().map(|slot| partition(SLOT_A, SLOT_TYPE, GOOD.write(0), slot)));
    let disk =
        DiskImage { sector_size: SECTOR_SIZE.into(), guid: guid_from_name("disk"), partitions };
    let file = std::fs::File::create(path).or_build(cannot)?;
    disk.write(file).map(drop).or_build(cannot)
}

/// The file of the program that firmware starts.
pub fn started(program: &[u8]) -> File<Vec<u8>> {
    File { path: format!("/{}", removable_path(Architecture::Amd64)), bytes: program.to_vec() }
}

/// A slot's header and its UKI.
fn slot(uki: &[u8]) -> Result<Vec<u8>> {
    let header = Header {
        length: uki.len() as u64,
        sha256: *Digest::of(uki).hash(),
        version: "0.0.1".to_owned(),
    };
    Ok([&header.encode().or_build(|| "cannot make the header of a slot".to_owned())?, uki].concat())
}

fn partition<'a>(name: &'a str, kind: &str, attributes: u64, bytes: &'a [u8]) -> Partition<'a> {
    let type_guid = kind.parse().expect("the types in abi are GUIDs");
    Partition {
        name,
        type_guid,
        guid: guid_from_name(name),
        attributes,
        size: SIZE,
        content: Content::bytes(bytes),
    }
}
