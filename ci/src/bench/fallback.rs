//! The time of a fallback from a bad slot, for each fault of the checks.

use super::Row;
use crate::site::Site;
use crate::vm::slots::{becomes_good, faults, new_disk};
use osbuild::error::Result;

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let disk = new_disk(site, "bench-fallback")?;
    becomes_good(&disk)?;
    let row = |fault: &faults::Fault| {
        fault(&disk)
            .map(|fallback| Row::time(format!("fallback from {}", fallback.from), fallback.took))
    };
    faults::ALL.iter().map(row).collect()
}
