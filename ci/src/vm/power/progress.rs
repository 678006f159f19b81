//! How far a long check has come, so that one that was interrupted goes on from there.

use osbuild::error::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// The cuts that are done with, by their numbers: a line each in a file.
pub struct Progress {
    file: File,
    done: BTreeSet<usize>,
}

impl Progress {
    /// Reads the file, or makes it.
    pub fn open(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read or write `{}`", path.display());
        let file = File::options().create(true).append(true).open(path).or_build(cannot)?;
        let text = fs::read_to_string(path).or_build(cannot)?;
        // The last line may be cut short: it goes.
        let (lines, _) = text.rsplit_once('\n').unwrap_or_default();
        file.set_len(if lines.is_empty() { 0 } else { lines.len() as u64 + 1 }).or_build(cannot)?;
        Ok(Progress { file, done: lines.lines().filter_map(|line| line.parse().ok()).collect() })
    }

    /// Whether that cut is done with.
    pub fn has(&self, cut: usize) -> bool {
        self.done.contains(&cut)
    }

    /// Notes that it is.
    pub fn add(&mut self, cut: usize) -> Result<()> {
        self.done.insert(cut);
        writeln!(self.file, "{cut}")
            .or_build(|| "cannot note how far the check has come".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_known_after_an_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("done");
        fs::write(&path, "3\n14\n1").unwrap();
        let mut progress = Progress::open(&path).unwrap();
        assert!(progress.has(3) && progress.has(14) && !progress.has(1));
        progress.add(7).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "3\n14\n7\n");
    }
}
