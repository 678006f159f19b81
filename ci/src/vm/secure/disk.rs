//! A disk with an EFI system partition and nothing else.

use osbuild::error::{Context, Result};
use osbuild::plan::Architecture;
use osbuild::produce::image::removable_path;
use osbuild_abi::disk::{ESP, ESP_TYPE};
use osbuild_formats::disk::{Content, Disk, Partition};
use osbuild_formats::fat::{File, Volume};
use osbuild_formats::gpt::guid_from_name;
use std::path::Path;

/// Bytes in a sector.
pub const SECTOR_SIZE: u32 = 512;

/// The partition's size in bytes: room for every UKI.
const SIZE: u64 = 192 << 20;

/// Writes a disk from which firmware starts `program`.
pub fn write(path: &Path, program: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    let volume = Volume { sector_size: SECTOR_SIZE.into(), size: SIZE, label: ESP, id: 1 };
    let loader = File { path: format!("/{}", removable_path(Architecture::Amd64)), bytes: program };
    let bytes = volume.write(&[loader]).or_build(cannot)?;
    let partition = Partition {
        name: ESP,
        type_guid: ESP_TYPE.parse().expect("the types in abi are GUIDs"),
        guid: guid_from_name(ESP),
        attributes: 0,
        size: SIZE,
        content: Content::bytes(&bytes),
    };
    let disk = Disk { sector_size: SECTOR_SIZE.into(), guid: guid_from_name("disk"), partitions: vec![partition] };
    let file = std::fs::File::create(path).or_build(cannot)?;
    disk.write(file).map(drop).or_build(cannot)
}
