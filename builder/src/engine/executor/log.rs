//! The log of an action: a file, its last lines in memory for errors, and its last line beside the
//! step's progress bar.

use crate::engine::fs_error::IoContext;
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

/// The number of bytes of a line that are kept. The file has the rest.
const MAX_LINE: usize = 400;

pub(super) struct Log<'a> {
    path: PathBuf,
    file: File,
    step: &'a Step,
    line: Vec<u8>,
    lines: VecDeque<String>,
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
        let file = File::create(&path).at("write", &path)?;
        Ok(Log { path, file, step, line: Vec::new(), lines: VecDeque::new() })
    }

    /// Appends output of the action.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at("write", &self.path)?;
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(),
                _ if self.line.len() < MAX_LINE => self.line.push(*byte),
                _ => {}
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
