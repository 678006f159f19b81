//! The bounded logs of `init` and the daemons, below `/var/log`.
//!
//! `NAME.log` is this boot's. A full one is renamed to `NAME.log.old`, so at least one bound of the
//! newest lines is kept. The next boot renames it to `NAME.log.1`. So a log takes at most three
//! times its bound.

use std::fs::File;
use std::io::Write;

use osbuild_folder::Folder;

/// The bound of one file in bytes.
pub const BOUND: u64 = 4 << 20;

/// The permission bits of a log.
const MODE: u32 = 0o644;

/// A log that is being written. A line that cannot be written is lost: a full disk must not stop
/// the node. The next line that can be written comes after the number of those. Pods can write to
/// the folder, too, so a log is always a new file, and an entry that is in the way is moved aside.
pub struct Log {
    folder: Folder,
    name: String,
    bound: u64,
    /// None if it could not be made; the next line tries again.
    file: Option<File>,
    written: u64,
    /// How many lines in a row could not be written.
    lost: u64,
}

impl Log {
    /// Keeps the last boot's log and starts this one's.
    pub fn start(folder: Folder, name: &str, bound: u64) -> Log {
        let name = format!("{name}.log");
        let mut log = Log { folder, name, bound, file: None, written: 0, lost: 0 };
        // At the first boot there is no last log.
        let _ = log.folder.rename(&log.name, &log.suffixed("1"));
        let _ = log.folder.remove(&log.suffixed("old"));
        log.create();
        log
    }

    /// Appends one line.
    pub fn line(&mut self, line: &str) {
        if self.written + line.len() as u64 + 1 > self.bound && self.written > 0 {
            let _ = self.folder.rename(&self.name, &self.suffixed("old"));
            self.create();
        }
        if self.file.is_none() {
            self.create();
        }
        let text = match self.lost {
            0 => format!("{line}\n"),
            lost => format!("{lost} lines could not be written\n{line}\n"),
        };
        match self.file.as_mut().map(|file| file.write_all(text.as_bytes())) {
            Some(Ok(())) => {
                self.written += text.len() as u64;
                self.lost = 0;
            }
            _ => self.lost += 1,
        }
    }

    fn create(&mut self) {
        self.file = self.folder.create(&self.name, MODE).ok();
        self.written = 0;
    }

    fn suffixed(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, mkfifoat};

    fn open(folder: &tempfile::TempDir) -> Folder {
        Folder::open(&folder.path().canonicalize().unwrap(), ".aside").unwrap()
    }

    #[test]
    fn a_full_log_keeps_its_newest_lines_in_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::start(open(&folder), "kubelet", 12);
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
            Log::start(open(&folder), "init", BOUND).line(line);
        }
        assert_eq!(read_to_string(folder.path().join("init.log")).unwrap(), "third boot\n");
        assert_eq!(read_to_string(folder.path().join("init.log.1")).unwrap(), "second boot\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_log_that_could_not_be_written_goes_on_with_the_number_of_lost_lines() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::start(open(&folder), "init", BOUND);
        // Every write to this device fails like one to a full disk.
        log.file = Some(File::options().write(true).open("/dev/full").unwrap());
        for line in ["lost", "lost, too"] {
            log.line(line);
        }
        log.file = None;
        log.line("kept");
        let text = read_to_string(folder.path().join("init.log")).unwrap();
        assert_eq!(text, "2 lines could not be written\nkept\n");
    }

    #[test]
    fn a_line_longer_than_the_bound_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::start(open(&folder), "init", 4);
        log.line("longer than four bytes");
        assert_eq!(
            read_to_string(folder.path().join("init.log")).unwrap(),
            "longer than four bytes\n"
        );
    }

    #[test]
    fn a_fifo_and_a_folder_in_its_place_do_not_hold_up_a_log() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("init.log.1/in the way")).unwrap();
        std::fs::create_dir_all(folder.path().join("init.log.old/in the way")).unwrap();
        mkfifoat(CWD, folder.path().join("init.log"), 0o600.into()).unwrap();
        let mut log = Log::start(open(&folder), "init", 8);
        for line in ["first", "second"] {
            log.line(line);
        }
        assert_eq!(read_to_string(folder.path().join("init.log")).unwrap(), "second\n");
        assert_eq!(read_to_string(folder.path().join("init.log.old")).unwrap(), "first\n");
    }

    #[test]
    fn a_log_is_not_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        std::fs::write(&disk, "a partition table").unwrap();
        std::fs::create_dir(folder.path().join("init.log.1")).unwrap();
        symlink(&disk, folder.path().join("init.log")).unwrap();
        let mut log = Log::start(open(&folder), "init", 8);
        log.line("before");
        std::fs::remove_file(folder.path().join("init.log")).unwrap();
        symlink(&disk, folder.path().join("init.log")).unwrap();
        for line in ["rotates", "rotates again"] {
            log.line(line);
        }
        assert_eq!(read_to_string(&disk).unwrap(), "a partition table");
        assert_eq!(read_to_string(folder.path().join("init.log")).unwrap(), "rotates again\n");
    }

    #[test]
    fn a_log_is_not_written_through_a_hard_link() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, "other").unwrap();
        std::fs::hard_link(&other, folder.path().join("init.log")).unwrap();
        Log::start(open(&folder), "init", BOUND).line("ours");
        assert_eq!(read_to_string(&other).unwrap(), "other");
    }
}
