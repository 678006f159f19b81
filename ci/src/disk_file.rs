//! Files that stand for disks.

use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Creates an empty disk of `size` bytes.
pub fn create(path: &Path, size: u64) -> Result<()> {
    let created = File::create(path).and_then(|file| file.set_len(size));
    created.or_build(|| format!("cannot create the disk `{}`", path.display()))
}

/// Copies a disk to a file or a folder, and keeps its holes.
pub fn copy(site: &Site, from: &Path, to: &Path) -> Result<()> {
    let mut cp = Command::new("cp");
    site.finish("disk-copy", cp.arg("--sparse=always").args([from, to])).map(drop)
}

/// A loop device over a file. Dropping it detaches the device.
pub struct LoopDevice {
    path: String,
}

impl LoopDevice {
    /// A device with sectors of `sector_size` bytes, which a check may overwrite.
    pub fn writable(site: &Site, file: &Path, sector_size: u32) -> Result<Self> {
        Self::attach(site, file, &["--sector-size", &sector_size.to_string()])
    }

    /// A read-only device.
    pub fn read_only(site: &Site, file: &Path) -> Result<Self> {
        Self::attach(site, file, &["--read-only"])
    }

    fn attach(site: &Site, file: &Path, flags: &[&str]) -> Result<Self> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]).args(flags).arg(file);
        Ok(LoopDevice { path: site.finish("losetup", &mut losetup)?.output.trim().to_owned() })
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // It fails only if the device is gone already.
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}
