//! Machines that boot from the disks of power cuts while other disks are checked.

use super::findings::Findings;
use super::session::Session;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

/// A disk to boot from.
pub struct Booting {
    /// The cut's number.
    pub index: usize,
    /// The cut's description.
    pub about: String,
    /// The disk, which is removed after the boot.
    pub disk: PathBuf,
}

/// Boots from one disk after another until the channel closes, even after an error: otherwise the
/// sender would wait forever.
pub fn boot_all(
    session: &Session,
    disks: &Mutex<Receiver<Booting>>,
    findings: &Findings,
) -> Result<()> {
    let mut result = Ok(());
    loop {
        let next = disks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Booting { index, about, disk }) = next else { return result };
        let booted = session.boot(&disk, index);
        let removed =
            fs::remove_file(&disk).or_build(|| format!("cannot remove `{}`", disk.display()));
        result = result.and(findings.add(index, &about, booted)).and(removed);
    }
}
