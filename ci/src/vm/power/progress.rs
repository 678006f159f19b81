//! The progress of a long check, so that an interrupted check resumes.

use osbuild::error::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// The numbers of the cuts that were checked, one a line in a file.
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
        // The last line may be cut short: it is dropped.
        let (lines, _) = text.rsplit_once('\n').unwrap_or_default();
        file.set_len(if lines.is_empty() { 0 } else { lines.len() as u64 + 1 }).or_build(cannot)?;
        Ok(Progress { file, done: lines.lines().filter_map(|line| line.parse().ok()).collect() })
    }

    /// Whether the cut was checked.
    pub fn has(&self, cut: usize) -> bool {
        self.done.contains(&cut)
    }

    /// Adds a cut.
    pub fn add(&mut self, cut: usize) -> Result<()> {
        self.done.insert(cut);
        writeln!(self.file, "{cut}")
            .or_build(|| "cannot write the progress of the check".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_check_resumes_after_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("done");
        fs::write(&path, "3\n14\n1").unwrap();
        let mut progress = Progress::open(&path).unwrap();
        assert!(progress.has(3) && progress.has(14) && !progress.has(1));
        progress.add(7).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "3\n14\n7\n");
    }
}
