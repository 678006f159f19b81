//! What `init` says: every line goes to all consoles and into `init.log`.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use osbuild_abi::console::{FAILED, PREFIX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::log::Log;

/// How long a line waits for a console that takes nothing, for example a serial line with flow control. Then it is dropped.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The consoles that the kernel speaks on, in order: the last of them is what `/dev/console` stands for.
const ACTIVE: &str = "/sys/class/tty/console/active";

/// The machine's consoles and the log behind them.
pub struct Console {
    devices: Vec<File>,
    log: Option<Log>,
    /// The lines from before there was a log.
    early: Vec<String>,
}

impl Console {
    /// Opens `/dev/console`. A machine without one still boots: its lines are in the log.
    pub fn open() -> Console {
        Console { devices: terminal("console").into_iter().collect(), log: None, early: Vec::new() }
    }

    /// Speaks on the others as well from now on: a machine may have a screen and a serial port, and nobody knows who looks at which. `/sys`
    /// has to be mounted.
    pub fn open_others(&mut self) {
        let active = std::fs::read_to_string(ACTIVE).unwrap_or_default();
        self.devices.extend(others(&active).into_iter().filter_map(terminal));
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
        let bytes = format!("{line}\n").into_bytes();
        for device in &mut self.devices {
            write(device, &bytes);
        }
    }
}

/// Opens a terminal of this name, to write to it, if it is there.
fn terminal(name: &str) -> Option<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(Path::new("/dev").join(name)).ok()
}

/// The consoles but for the one that is `/dev/console`.
fn others(active: &str) -> Vec<&str> {
    let mut names: Vec<&str> = active.split_whitespace().collect();
    names.pop();
    names
}

fn write(device: &mut File, bytes: &[u8]) {
    let mut rest = bytes;
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

/// A line as a terminal can show it: what a daemon or a client wrote must not move its cursor or end its line.
fn printable(line: &str) -> String {
    line.chars().map(|character| if character.is_control() && character != '\t' { '\u{fffd}' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_that_is_open_already_is_not_opened_again() {
        assert_eq!(others("tty0 ttyS0\n"), ["tty0"]);
        assert!(others("ttyS0\n").is_empty() && others("").is_empty());
    }

    #[test]
    fn a_control_sequence_cannot_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\td"), "a\u{fffd}[2Jb\u{fffd}c\td");
    }
}
