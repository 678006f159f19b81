//! The log of an action: a file, its last lines in memory for errors, and its last line beside the
//! step's progress bar.

use crate::engine::fs_error::{self, IoContext};
use crate::error::{LogTail, Result};
use crate::report::Step;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The number of lines in an error.
const SHOWN: usize = 20;

/// The number of lines in which the reason of a failure is searched: a build that goes on after an
/// error prints it far above the end.
const KEPT: usize = 400;

/// The number of bytes at the start and at the end of a line that are kept: cargo prints a whole
/// command of rustc before the signal that ended it. The file has the rest.
const MAX_START: usize = 400;
const MAX_END: usize = 100;

/// The mark between them.
const LEFT_OUT: &str = " … ";

pub(super) struct Log<'a> {
    path: PathBuf,
    file: File,
    step: &'a Step,
    line: Line,
    lines: VecDeque<String>,
}

/// The kept bytes of a line that has not ended.
#[derive(Default)]
struct Line {
    start: Vec<u8>,
    end: VecDeque<u8>,
    is_short: bool,
}

impl Line {
    fn push(&mut self, byte: u8) {
        if self.start.len() < MAX_START {
            self.start.push(byte);
            return;
        }
        self.end.push_back(byte);
        if self.end.len() > MAX_END {
            self.end.pop_front();
            self.is_short = true;
        }
    }

    /// Its text without control characters.
    fn text(self) -> String {
        let mut bytes = self.start;
        bytes.extend(if self.is_short { LEFT_OUT } else { "" }.bytes());
        bytes.extend(self.end);
        let text = String::from_utf8_lossy(&bytes);
        text.chars().filter(|letter| !letter.is_control()).collect()
    }
}

/// The file name of the log of an action, without its extension.
pub(super) fn name_of(action: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' }
    };
    action.chars().map(plain).collect()
}

impl<'a> Log<'a> {
    /// Starts the log of the action `name`, in place of an older one.
    pub(super) fn create(directory: &Path, name: &str, step: &'a Step) -> Result<Log<'a>> {
        fs::create_dir_all(directory).at("make the directory", directory)?;
        let path = directory.join(format!("{}.log", name_of(name)));
        // Another build of the same recipe may still write to the older one.
        fs_error::remove(&path)?;
        let file = File::create(&path).at("write", &path)?;
        Ok(Log { path, file, step, line: Line::default(), lines: VecDeque::new() })
    }

    /// Appends output of the action.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at("write", &self.path)?;
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(),
                _ => self.line.push(*byte),
            }
        }
        Ok(())
    }

    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its last lines, for an error.
    pub(super) fn tail(&self) -> LogTail {
        let lines =
            self.lines.iter().skip(self.lines.len().saturating_sub(SHOWN)).cloned().collect();
        LogTail { lines, path: self.path.display().to_string() }
    }

    /// The last lines, in which the reason of a failure is searched.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// Whether one of the last lines contains this text.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.lines().any(|line| line.contains(text))
    }

    /// Ends the current line.
    pub(super) fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line).text();
        if line.trim().is_empty() {
            return;
        }
        self.step.doing(line.trim());
        self.lines.push_back(line);
        if self.lines.len() > KEPT {
            self.lines.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Color, Report, Verbosity};

    fn text(line: &str) -> String {
        let mut kept = Line::default();
        line.bytes().for_each(|byte| kept.push(byte));
        kept.text()
    }

    #[test]
    fn two_builds_of_one_recipe_write_no_log_together() {
        let folder = tempfile::tempdir().unwrap();
        let report = Report::new(Verbosity::Quiet, Color::Never);
        let step = report.step("a");
        let mut first = Log::create(folder.path(), "a", &step).unwrap();
        let mut second = Log::create(folder.path(), "a", &step).unwrap();
        second.take(b"second\n").unwrap();
        first.take(b"first, longer\n").unwrap();
        assert_eq!(fs::read(second.path()).unwrap(), b"second\n");
    }

    #[test]
    fn a_long_line_keeps_its_start_and_its_end() {
        let whole = "ä".repeat((MAX_START + MAX_END) / 2);
        assert_eq!(text(&whole), whole);
        let command = "--cfg a ".repeat(300);
        let killed = text(&format!("rustc {command} (signal: 9, SIGKILL: kill)"));
        assert!(killed.starts_with("rustc --cfg a "), "{killed}");
        assert!(killed.contains(LEFT_OUT), "{killed}");
        assert!(killed.ends_with(" (signal: 9, SIGKILL: kill)"), "{killed}");
        assert!(killed.len() <= MAX_START + LEFT_OUT.len() + MAX_END, "{}", killed.len());
    }
}
