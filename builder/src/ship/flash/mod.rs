//! `osbuild flash`: puts an image onto a disk of this machine, and proves that it is there.
//!
//! 1. The old partition table goes, in both copies. From here until the end nothing boots from the
//!    disk: if the power is pulled, it is a disk without a table, and flashing again works.
//! 2. What is zero in the image is made zero, and what is not is written. It is not enough to write
//!    the latter: the free parts of a FAT, of ext4's inode tables and of its journal mean something
//!    when they hold what an older disk had there, and its journal would even be played back, as
//!    the journals of two disks from one image know each other's identifier.
//! 3. All that was written is read back, past the page cache, and compared; of what the device has
//!    made zero by itself, where each place begins and ends.
//! 4. The partition table is written, fitted to the disk and with fresh identifiers: backup first,
//!    each write on the medium before the next.
//! 5. All is read back and compared once more. The backup is the only write at the end of the disk,
//!    and a stick that is smaller than it says puts it over something else. If that is so, the
//!    table goes again.

mod choice;
mod disk;
mod refusal;
mod text;
mod uses;

pub use choice::Wish;
use disk::replaced;
pub use disk::{Disk, Identity, all};
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

/// What was done.
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
    /// How many seconds it took until all was on the medium, before it was read back.
    pub write_s: f64,
}

/// Puts the image at `path` onto a disk that was chosen by [`Wish::choose`].
///
/// # Errors
/// The disk is in use, or cannot be written; what is read back is not what was written; the user
/// wants to stop.
pub fn flash(report: &Report, path: &Path, disk: &Disk) -> Result<Flashed> {
    let image = Image::open(path, disk.sector_size)?;
    let geometry = Geometry::new(disk.sector_size.into(), disk.size)
        .or_build(|| "the disk is too small".into())?;
    let table = image.table_for(geometry)?;
    let ends = Ends::new(&table, geometry)?;
    let pieces = image.pieces()?;
    // Who uses it is known only of a disk that the user named twice.
    let mut device =
        Device::open(&disk.device, disk.uses.is_empty()).map_err(|error| refused(disk, error))?;
    if let (Some(named), Some(found)) = (disk.identity.diskseq, device.diskseq())
        && named != found
    {
        return Err(replaced(&disk.device, &disk.identity, &format!("number {found}")));
    }
    let unfinished = |error: Error| {
        error.cause(format!(
            "`{}` has no partition table now, and can be flashed again",
            disk.device.display()
        ))
    };
    take_table(&ends, &mut device)?;
    let started = Instant::now();
    let to_compare = put(report, &image, &pieces, &mut device, disk).map_err(unfinished)?;
    let write_s = started.elapsed().as_secs_f64();
    compare(report, "read back", &image, &to_compare, &mut device, disk).map_err(unfinished)?;
    let finished = write_table(&ends, &mut device)
        .and_then(|()| compare(report, "read back again", &image, &to_compare, &mut device, disk));
    if let Err(error) = finished {
        return Err(match take_table(&ends, &mut device) {
            Ok(()) => unfinished(error),
            Err(failed) => {
                error.cause(format!("and its new partition table could not be removed: {failed}"))
            }
        });
    }
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

/// Removes both copies of the table.
fn take_table(ends: &Ends, device: &mut Device) -> Result<()> {
    for range in &ends.ranges {
        device.zero(range)?;
    }
    Ok(device.flush()?)
}

/// Writes both copies of the table, and reads them back.
fn write_table(ends: &Ends, device: &mut Device) -> Result<()> {
    device.write_in_order(&ends.writes)?;
    for range in &ends.ranges {
        device.holds(&ends.bytes(range), range)?;
    }
    Ok(())
}

/// Writes the image without its partition table, and gives what has to be compared.
fn put(
    report: &Report,
    image: &Image,
    pieces: &[Piece],
    device: &mut Device,
    disk: &Disk,
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
    disk: &Disk,
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

fn rate(disk: &Disk, total: u64, started: Instant) -> String {
    let rate = total as f64 / started.elapsed().as_secs_f64().max(0.001);
    format!("{}, {}/s", disk.device.display(), bytes(rate as u64))
}
