//! The time of `osbuild flash`, compared with `dd` of the same bytes to the same disk.

use super::Row;
use crate::disk_file::{self, LoopDevice};
use crate::image::{RECIPE, image_of};
use crate::site::Site;
use osbuild::error::{Context, Result};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Rounds of each measurement, in turn. The fastest counts.
const ROUNDS: usize = 5;

const SECTOR_SIZE: u32 = 512;
const DISK_SIZE: u64 = 2 << 30;

/// Bytes of a block.
const BLOCK: usize = 64 << 10;

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(site.root.join("out/ci"))
        .or_build(|| "cannot make a folder".to_owned())?;
    let [disk, bytes] = ["disk", "bytes"].map(|name| folder.path().join(name));
    disk_file::create(&disk, DISK_SIZE)?;
    copy_blocks(&image_of(&site.project(), RECIPE), &bytes)?;
    let disk = LoopDevice::writable(site, &disk, SECTOR_SIZE)?;
    let (mut plain, mut written, mut whole) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        empty(site, &disk)?;
        plain = plain.min(copy(site, &bytes, &disk)?);
        empty(site, &disk)?;
        let (until_written, until_done) = flash(site, &disk)?;
        written = written.min(until_written);
        whole = whole.min(until_done);
    }
    Ok(vec![
        Row::time("flash: dd conv=fsync of the same bytes", plain),
        Row::time("flash: until everything is on the medium", written).below(plain * 11 / 10),
        Row::time("flash: the whole command, with reading back", whole),
    ])
}

/// Discards the disk and flushes the page cache before each measurement.
fn empty(site: &Site, disk: &LoopDevice) -> Result<()> {
    site.finish("bench-discard", Command::new("blkdiscard").args(["--force", disk.path()]))?;
    site.finish("bench-sync", &mut Command::new("sync")).map(drop)
}

fn copy(site: &Site, bytes: &Path, disk: &LoopDevice) -> Result<Duration> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", bytes.display())).arg(format!("of={}", disk.path()));
    let started = Instant::now();
    site.finish("bench-dd", dd.args(["bs=4M", "conv=fsync", "status=none"]))?;
    Ok(started.elapsed())
}

/// The times until the image is on the medium, as the command reports, and until the command ends.
fn flash(site: &Site, disk: &LoopDevice) -> Result<(Duration, Duration)> {
    let mut osbuild = site.osbuild()?;
    osbuild.args([
        "flash",
        RECIPE,
        "--device",
        disk.path(),
        "--device",
        disk.path(),
        "--json",
        "--quiet",
        "--yes",
    ]);
    let started = Instant::now();
    let ran = site.finish("bench-flash", &mut osbuild)?;
    let whole = started.elapsed();
    let flashed: Value = serde_json::from_str(ran.output.trim())
        .or_build(|| "cannot read the output of `osbuild flash --json`".to_owned())?;
    Ok((Duration::from_secs_f64(flashed["write-s"].as_f64().unwrap_or_default()), whole))
}

/// Copies the blocks of an image that are not all zeros, without the gaps between them.
fn copy_blocks(image: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(image).or_build(|| format!("cannot read `{}`", image.display()))?;
    let file = File::create(to).or_build(|| "cannot make a file".to_owned())?;
    let mut end = 0;
    for block in bytes.chunks(BLOCK).filter(|block| block.iter().any(|byte| *byte != 0)) {
        file.write_all_at(block, end).or_build(|| "cannot write a file".to_owned())?;
        end += block.len() as u64;
    }
    file.sync_all().or_build(|| "cannot write a file".to_owned())
}
