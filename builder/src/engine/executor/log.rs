//! The log of an action: a file, its end kept for errors, and its last line behind the step's bar.

use crate::engine::fs_error::IoContext;
use crate::error::{LogTail, Result};
use crate::report::Step;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// How many lines an error shows.
const SHOWN: usize = 20;

/// How many lines are kept to look for the reason of a failure: a build that goes on after an error
/// says it some way up.
const KEPT: usize = 400;

/// A line longer than this is cut for the screen, and the rest of it is not looked at.
const LONGEST: usize = 400;

pub(super) struct Log<'a> {
    path: PathBuf,
    file: File,
    step: &'a Step,
    line: Vec<u8>,
    lines: VecDeque<String>,
}

/// How the log of an action is called, without its ending.
pub(super) fn name_of(action: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' }
    };
    action.chars().map(plain).collect()
}

impl<'a> Log<'a> {
    /// Begins the log of the action `name`; an older one of the same name goes.
    pub(super) fn create(directory: &Path, name: &str, step: &'a Step) -> Result<Log<'a>> {
        fs::create_dir_all(directory).at("make the directory", directory)?;
        let path = directory.join(format!("{}.log", name_of(name)));
        let file = File::create(&path).at("write", &path)?;
        Ok(Log { path, file, step, line: Vec::new(), lines: VecDeque::new() })
    }

    /// Takes what the action printed.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at("write", &self.path)?;
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(),
                _ if self.line.len() < LONGEST => self.line.push(*byte),
                _ => {}
            }
        }
        Ok(())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its last lines, for an error.
    pub(super) fn tail(&self) -> LogTail {
        let lines =
            self.lines.iter().skip(self.lines.len().saturating_sub(SHOWN)).cloned().collect();
        LogTail { lines, path: self.path.display().to_string() }
    }

    /// Whether one of the last lines has this text.
    pub(super) fn says(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    /// Ends the line that the action has not ended.
    pub(super) fn end_line(&mut self) {
        let line: String = String::from_utf8_lossy(&self.line)
            .chars()
            .filter(|letter| !letter.is_control())
            .collect();
        self.line.clear();
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
