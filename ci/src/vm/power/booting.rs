//! Machines that boot from what power cuts leave, beside the judge.

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
    /// The cut, for people.
    pub about: String,
    /// The disk, which goes when it was booted from.
    pub disk: PathBuf,
}

/// Boots from one disk after the other, until there are no more, also after an error: the judge
/// waits for somebody to take his disks.
pub fn boot_all(
    session: &Session,
    disks: &Mutex<Receiver<Booting>>,
    findings: &Findings,
) -> Result<()> {
    let mut noted = Ok(());
    loop {
        let next = disks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Booting { index, about, disk }) = next else { return noted };
        let booted = session.boot(&disk, index);
        let removed =
            fs::remove_file(&disk).or_build(|| format!("cannot remove `{}`", disk.display()));
        noted = noted.and(findings.add(index, &about, booted)).and(removed);
    }
}
