//! Checks the disks of power cuts one after another, and remembers the good parts.

use super::cut::{Cut, Extract, Medium};
use super::disk_checker::{DiskChecker, copy, file_number};
use super::recording::{Entry, Recording};
use super::session::Session;
use crate::site::Site;
use osbuild::error::{Context, Result};
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A disk to which the recording is replayed, and the parts that were good.
pub struct CutChecker<'a> {
    recording: &'a Recording,
    checker: DiskChecker<'a>,
    medium: Medium<'a>,
    synced: Vec<Option<u32>>,
    /// Good parts, with the number of files that they had to contain.
    good: HashSet<(Extract, u32)>,
}

impl<'a> CutChecker<'a> {
    /// Begins with the disk as it was before the recording.
    pub fn new(site: &'a Site, session: &'a Session, recording: &'a Recording) -> Result<Self> {
        let disk = session.before()?;
        let file = File::options()
            .read(true)
            .write(true)
            .open(&disk)
            .or_build(|| format!("cannot open `{}`", disk.display()))?;
        let (folder, size, programs) = (session.folder(), session.size()?, session.programs()?);
        Ok(CutChecker {
            checker: DiskChecker::new(site, &disk, folder, size, programs)?,
            medium: Medium::new(recording, file),
            synced: synced(recording)?,
            good: HashSet::new(),
            recording,
        })
    }

    /// For each entry of the recording the number of the probe's file whose bytes it holds, if any.
    pub fn synced(&self) -> &[Option<u32>] {
        &self.synced
    }

    /// Checks the disk that a cut leaves; parts that were good before are not checked again. Copies
    /// the disk to `copy` for a machine.
    pub fn check(&mut self, cut: &Cut, copy: Option<&PathBuf>) -> Result<()> {
        // The probe flushes each file before it writes the next.
        let files = self.synced[..cut.sent].iter().flatten().last().map_or(0, |file| file - 1);
        let (checker, good) = (&self.checker, &self.good);
        let data = (cut.extract(self.recording, |entry| checker.is_data(entry)), files);
        let rest = (cut.extract(self.recording, |entry| checker.is_rest(entry)), 0);
        self.medium.after(cut, |undo| {
            if !good.contains(&data) {
                checker.check_data(undo.disk(), files)?;
            }
            // Before the check below spends a try, as slotboot does.
            copy.map_or(Ok(()), |copy| copy_whole(undo.disk(), copy))?;
            if !good.contains(&rest) {
                checker.check_boot(undo)?;
            }
            Ok(())
        })?;
        self.good.extend([rest, data]);
        Ok(())
    }
}

/// Copies the disk to `to`.
fn copy_whole(disk: &File, to: &Path) -> Result<()> {
    let length =
        disk.metadata().or_build(|| "cannot read the disk of a power cut".to_owned())?.len();
    copy(disk, 0, length, to).or_build(|| format!("cannot write `{}`", to.display()))
}

/// For each entry the number of the probe's file whose bytes it holds, if any.
fn synced(recording: &Recording) -> Result<Vec<Option<u32>>> {
    let look = |entry: &Entry| match entry.length {
        4096 => Ok(file_number(&recording.read(entry, 0, 64)?)),
        _ => Ok(None),
    };
    recording.entries.iter().map(look).collect()
}
