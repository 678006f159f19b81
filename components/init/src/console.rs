//! What `init` says: every line goes to the console and into `init.log`.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use osbuild_abi::console::{FAILED, PREFIX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::log::Log;

/// How long a line waits for a console that takes nothing, for example a serial line with flow control. Then it is dropped.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The console and the log behind it.
pub struct Console {
    device: Option<File>,
    log: Option<Log>,
    /// The lines from before there was a log.
    early: Vec<String>,
}

impl Console {
    /// Opens `/dev/console`. A machine without one still boots: its lines are in the log.
    pub fn open() -> Console {
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let device = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open("/dev/console").ok();
        Console { device, log: None, early: Vec::new() }
    }

    /// Writes `init: WHO: WHAT`.
    pub fn say(&mut self, who: &str, what: impl Display) {
        self.line(&format!("{PREFIX}{who}: {what}"));
    }

    /// Writes the line after which the node reboots.
    pub fn failed(&mut self, who: &str, why: impl Display) {
        self.line(&format!("{FAILED} {who}: {why}"));
    }

    /// Writes a line that is complete, so one that starts with a phrase of `osbuild_abi::console`.
    pub fn line(&mut self, line: &str) {
        let line = printable(line);
        self.print(&line);
        match &mut self.log {
            Some(log) => log.line(&line),
            None => self.early.push(line),
        }
    }

    /// Starts the log, with all lines so far.
    pub fn keep_log(&mut self, mut log: Log) {
        for line in self.early.drain(..) {
            log.line(&line);
        }
        self.log = Some(log);
    }

    /// Ends the log, so that its file system can be unmounted.
    pub fn end_log(&mut self) {
        self.log = None;
    }

    fn print(&mut self, line: &str) {
        let Some(device) = &mut self.device else { return };
        let bytes = format!("{line}\n").into_bytes();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match device.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let ready = poll(&mut [PollFd::new(device, PollFlags::OUT)], Some(&PATIENCE));
                    if !matches!(ready, Ok(1..)) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// A line as a terminal can show it: what a daemon or a client wrote must not move its cursor or end its line.
fn printable(line: &str) -> String {
    line.chars().map(|character| if character.is_control() && character != '\t' { '\u{fffd}' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_sequence_cannot_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\td"), "a\u{fffd}[2Jb\u{fffd}c\td");
    }
}
