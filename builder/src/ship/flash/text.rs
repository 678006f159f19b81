//! The disks of this machine, as a list for people.

use super::choice::Requirements;
use super::host_disk::HostDisk;
use crate::report::bytes;

/// The disks that fit, one line each: device, size, bus, model, contents.
pub fn list(disks: &[HostDisk]) -> String {
    let line = |disk: &HostDisk| {
        let model = disk.model.as_deref().unwrap_or("-");
        format!(
            "{:16} {:>9}  {:8} {model:28} {}",
            disk.device.display().to_string(),
            bytes(disk.size),
            disk.bus,
            disk.contents
        )
    };
    disks.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Requirements {
    /// Explains why the other disks are not offered.
    pub fn others(&self, disks: &[HostDisk]) -> Vec<String> {
        let others = disks.iter().filter(|disk| !self.fits(disk));
        others
            .map(|disk| {
                format!("not offered: {} ({})", self.reasons(disk).join("; "), disk.contents)
            })
            .collect()
    }
}
