//! `osbuild flash`: writes an image to a disk of this machine, and verifies it.
//!
//! 1. Both copies of the old partition table are removed. From here until step 5 nothing boots from
//!    the disk: after a power cut it has no table, and flashing again works.
//! 2. Zeros of the image become zeros on the disk, and all else is written. The zeros matter: stale
//!    bytes in the free parts of a FAT, of ext4's inode tables or of its journal have a meaning.
//!    The journal of an earlier node would even be replayed, as two disks from one image have the
//!    same journal identifier.
//! 3. Everything that was written is read back, past the page cache, and compared. Of a range that
//!    the device itself zeroed, only the two ends are.
//! 4. The partition table is written, fitted to the disk and with fresh identifiers: backup first,
//!    each write flushed before the next.
//! 5. Everything is read back and compared again. The backup table is the only write at the end of
//!    the disk, and a disk that is smaller than it claims stores it over something else. The table
//!    is removed again then.

mod choice;
mod host_disk;
mod refusal;
mod text;
mod uses;

pub use choice::Requirements;
use host_disk::replaced;
pub use host_disk::{HostDisk, Identity, all};
pub use text::list;
pub use uses::Use;

use crate::engine::stop;
use crate::error::{Context, Error, Result};
use crate::report::{Outcome, Report, bytes};
use osbuild_disks::write::{self, length};
use osbuild_disks::{Device, Ends, Image, Piece};
use osbuild_formats::gpt::Geometry;
use refusal::refused;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A finished flash.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Flashed {
    /// The disk's device file.
    pub device: PathBuf,
    /// The disk's new GUID.
    pub disk_guid: String,
    /// How many bytes of the image are not zero and were written.
    pub written: u64,
    /// How many bytes were read back.
    pub compared: u64,
    /// How many seconds the write took until all of it was on the medium.
    pub write_s: f64,
}

/// Writes the image at `path` to a disk from [`Requirements::choose`].
///
/// # Errors
/// The disk is in use, or cannot be written; the data read back differ from the data written; the
/// user wants to stop.
pub fn flash(report: &Report, path: &Path, disk: &HostDisk) -> Result<Flashed> {
    let image = Image::open(path, disk.sector_size)?;
    let geometry = Geometry::new(disk.sector_size.into(), disk.size)
        .or_build(|| "the disk is too small".into())?;
    let table = image.table_for(geometry)?;
    let ends = Ends::new(&table, geometry)?;
    let pieces = image.pieces()?;
    // A disk with uses was named twice, and opens despite them.
    let mut device =
        Device::open(&disk.device, disk.uses.is_empty()).map_err(|error| refused(disk, error))?;
    if let (Some(named), Some(found)) = (disk.identity.diskseq, device.diskseq())
        && named != found
    {
        return Err(replaced(&disk.device, &disk.identity, &format!("sequence number {found}")));
    }
    let unfinished = |error: Error| {
        error.cause(format!(
            "`{}` has no partition table now, and can be flashed again",
            disk.device.display()
        ))
    };
    write::remove_table(&ends, &mut device)?;
    let started = Instant::now();
    let to_compare = put(report, &image, &pieces, &mut device, disk).map_err(unfinished)?;
    let write_s = started.elapsed().as_secs_f64();
    compare(report, "read back", &image, &to_compare, &mut device, disk).map_err(unfinished)?;
    let check =
        |device: &mut Device| compare(report, "read back again", &image, &to_compare, device, disk);
    write::write_table(&ends, &mut device, check).map_err(|(error, removed)| match removed {
        Ok(()) => unfinished(error),
        Err(failed) => {
            error.cause(format!("and its new partition table could not be removed: {failed}"))
        }
    })?;
    if device.shows_old_partitions() {
        report.note(format!(
            "the kernel still shows the old partitions of `{}`, which are in use",
            disk.device.display()
        ));
    }
    let (written, compared) =
        (length(pieces.iter().filter(|piece| !piece.is_zero)), length(&to_compare));
    Ok(Flashed {
        device: disk.device.clone(),
        disk_guid: table.disk_guid.to_string(),
        written,
        compared,
        write_s,
    })
}

/// Writes the image without its partition table, and returns the pieces to compare.
fn put(
    report: &Report,
    image: &Image,
    pieces: &[Piece],
    device: &mut Device,
    disk: &HostDisk,
) -> Result<Vec<Piece>> {
    let total = length(pieces.iter().filter(|piece| !piece.is_zero));
    let (step, started) = (report.sized_step("write", total), Instant::now());
    step.doing(disk.device.display().to_string());
    let to_compare = write::write(image, pieces, device, |more| {
        step.advance(more);
        stop::check()
    })?;
    step.done(&rate(disk, total, started), Some(total), Outcome::Ran);
    Ok(to_compare)
}

/// Reads pieces of the disk back, and compares them with the image.
fn compare(
    report: &Report,
    name: &str,
    image: &Image,
    pieces: &[Piece],
    device: &mut Device,
    disk: &HostDisk,
) -> Result<()> {
    let total = length(pieces);
    let (step, started) = (report.sized_step(name, total), Instant::now());
    step.doing(disk.device.display().to_string());
    write::compare(image, pieces, device, |more| {
        step.advance(more);
        stop::check()
    })?;
    step.done(&rate(disk, total, started), Some(total), Outcome::Ran);
    Ok(())
}

fn rate(disk: &HostDisk, total: u64, started: Instant) -> String {
    let rate = total as f64 / started.elapsed().as_secs_f64().max(0.001);
    format!("{}, {}/s", disk.device.display(), bytes(rate as u64))
}
