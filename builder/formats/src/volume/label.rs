//! Labels of volumes, at fixed places: nothing is followed, so a program that must not fail can
//! read them.

use std::io::{Read, Seek};

use zerocopy::FromBytes;

use super::iso9660::{DESCRIPTOR, Descriptor, FIRST_DESCRIPTOR};
use super::read_at;
use crate::fat::raw::{BOOT_SIGNATURE, BootSector, VolumeId};

/// The smallest sector of a FAT volume in bytes, which has all of its header.
pub(super) const SECTOR: usize = 512;

/// The label of the volume that begins at the start of `source`: of ISO 9660 its volume identifier,
/// of FAT that of its boot sector. None if it has none, is another kind of volume, or cannot be
/// read.
pub fn label(source: &mut (impl Read + Seek)) -> Option<String> {
    let of_iso9660 = read_at(source, FIRST_DESCRIPTOR, DESCRIPTOR, "the label").ok();
    if let Some(label) = of_iso9660.as_deref().and_then(Descriptor::primary) {
        return text(&label.volume);
    }
    let sector = read_at(source, 0, SECTOR, "the label").ok()?;
    if !sector.ends_with(&BOOT_SIGNATURE) {
        return None;
    }
    let (boot, _) = BootSector::ref_from_prefix(&sector).ok()?;
    let place = if boot.is_fat32() { VolumeId::IN_FAT32 } else { VolumeId::IN_FAT16 };
    let (id, _) = VolumeId::ref_from_prefix(sector.get(place..)?).ok()?;
    if id.has_label() { text(&id.label) } else { None }
}

/// A label without the spaces that fill its field.
fn text(field: &[u8]) -> Option<String> {
    let label = std::str::from_utf8(field).ok()?.trim_end_matches([' ', '\0']);
    (!label.is_empty()).then(|| label.to_owned())
}
