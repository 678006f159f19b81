//! The disks of this machine, as a list for people.

use super::choice::Requirements;
use super::disk::Disk;
use crate::report::bytes;

/// The disks that fit, one line each: device, size, bus, model, what is on it.
pub fn list(disks: &[Disk]) -> String {
    let line = |disk: &Disk| {
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
    /// Why the others are not in the list.
    pub fn others(&self, disks: &[Disk]) -> Vec<String> {
        let others = disks.iter().filter(|disk| !self.fits(disk));
        others
            .map(|disk| {
                format!("not offered: {} ({})", self.reasons(disk).join("; "), disk.contents)
            })
            .collect()
    }
}
