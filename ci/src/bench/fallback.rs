//! How long a fallback from a bad slot takes, for each fault of the checks.

use super::Row;
use crate::site::Site;
use crate::vm::slots::{becomes_good, faults, new_disk};
use osbuild::error::Result;

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let disk = new_disk(site, "bench-fallback")?;
    becomes_good(&disk)?;
    let row = |fault: &faults::Fault| {
        fault(&disk).map(|back| Row::time(format!("back from {}", back.from), back.took))
    };
    faults::ALL.iter().map(row).collect()
}
