//! A loop device: a disk that a check may overwrite.

use crate::site::Site;
use osbuild::error::Result;
use std::path::Path;
use std::process::Command;

/// A loop device over a file. Dropping it detaches the device.
pub struct Loop {
    device: String,
}

impl Loop {
    /// Attaches `file` with sectors of `sector_size` bytes.
    pub fn over(site: &Site, file: &Path, sector_size: u32) -> Result<Self> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--sector-size", &sector_size.to_string()]).arg(file);
        Ok(Loop { device: site.finish("losetup", &mut losetup)?.output.trim().to_owned() })
    }

    /// Its device file.
    pub fn device(&self) -> &str {
        &self.device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // It fails only if the device is gone already.
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}
