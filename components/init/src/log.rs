//! The bounded logs of `init` and the daemons, below `/var/log`.
//!
//! `NAME.log` is this boot's. When it is full it becomes `NAME.log.old`, so at least one bound of the newest lines is there. The next
//! boot makes `NAME.log.1` of it. So a log takes at most three times its bound.

use std::fs::{File, OpenOptions, rename};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The bound of one file in bytes.
pub const BOUND: u64 = 4 << 20;

/// A log that is being written. A line that cannot be written is lost: a full disk must not stop the node.
pub struct Log {
    path: PathBuf,
    bound: u64,
    file: Option<File>,
    written: u64,
}

impl Log {
    /// Keeps the last boot's log and starts this one's.
    pub fn start(folder: &Path, name: &str, bound: u64) -> Log {
        let path = folder.join(format!("{name}.log"));
        // There is no last log at the first boot, and without one nothing is lost.
        let _ = rename(&path, suffixed(&path, "1"));
        let _ = std::fs::remove_file(suffixed(&path, "old"));
        let mut log = Log { path, bound, file: None, written: 0 };
        log.create();
        log
    }

    /// Appends one line.
    pub fn line(&mut self, line: &str) {
        if self.written + line.len() as u64 + 1 > self.bound && self.written > 0 {
            let _ = rename(&self.path, suffixed(&self.path, "old"));
            self.create();
        }
        let Some(file) = &mut self.file else { return };
        if file.write_all(format!("{line}\n").as_bytes()).is_ok() {
            self.written += line.len() as u64 + 1;
        }
    }

    fn create(&mut self) {
        self.file = OpenOptions::new().create(true).write(true).truncate(true).open(&self.path).ok();
        self.written = 0;
    }
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    #[test]
    fn a_full_log_keeps_its_newest_lines_in_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::start(folder.path(), "kubelet", 12);
        for line in ["one", "two", "three", "four"] {
            log.line(line);
        }
        assert_eq!(read_to_string(folder.path().join("kubelet.log")).unwrap(), "three\nfour\n");
        assert_eq!(read_to_string(folder.path().join("kubelet.log.old")).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn the_last_boots_log_is_kept_and_the_one_before_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for line in ["first boot", "second boot", "third boot"] {
            Log::start(folder.path(), "init", BOUND).line(line);
        }
        assert_eq!(read_to_string(folder.path().join("init.log")).unwrap(), "third boot\n");
        assert_eq!(read_to_string(folder.path().join("init.log.1")).unwrap(), "second boot\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_line_longer_than_the_bound_is_written_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::start(folder.path(), "init", 4);
        log.line("longer than four bytes");
        assert_eq!(read_to_string(folder.path().join("init.log")).unwrap(), "longer than four bytes\n");
    }
}
