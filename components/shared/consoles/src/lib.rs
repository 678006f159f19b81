//! The machine's consoles: a screen with a keyboard, a serial port, or both. A person may use any
//! of them, so every line goes to all, and an answer may come from any.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// How long a line waits for a console that accepts no output, for example a serial line with flow
/// control. Then the line is dropped.
const TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The kernel's consoles, in order. The last one is the same as [`FIRST`].
const ACTIVE: &str = "/sys/class/tty/console/active";

/// The console that exists before `/sys` is mounted.
const FIRST: &str = "console";

/// The consoles to write to; none by default.
#[derive(Default)]
pub struct Consoles {
    devices: Vec<File>,
}

impl Consoles {
    /// Opens `/dev/console` only. A machine may have none; then nothing is printed.
    pub fn first() -> Consoles {
        Consoles { devices: terminal(FIRST).into_iter().collect() }
    }

    /// Opens the other consoles as well. `/sys` must be mounted.
    pub fn open_others(&mut self) {
        self.devices.extend(others(&active()).into_iter().filter_map(terminal));
    }

    /// Writes a line to all consoles, without control characters.
    pub fn line(&mut self, line: &str) {
        // One write, so that output of other programs does not mix in.
        let bytes = format!("{}\n", printable(line)).into_bytes();
        for device in &mut self.devices {
            write(device, &bytes);
        }
    }
}

/// Opens all consoles for reading, which does not block: a line is there once it is whole. `/sys`
/// must be mounted.
pub fn readable() -> Vec<File> {
    open_all(without_waiting)
}

/// Returns the lines that are typed on any console from now on. The channel closes at once if no
/// console can be read.
pub fn typed() -> Receiver<String> {
    let (sender, receiver) = channel();
    for console in open_all(|options| options) {
        let sender = sender.clone();
        thread::spawn(move || {
            BufReader::new(console)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
                .ok();
        });
    }
    receiver
}

/// Makes a line safe to print: text from a daemon, a client or a disk's manufacturer must not move
/// the cursor or end the line.
pub fn printable(line: &str) -> String {
    line.chars()
        .map(
            |character| {
                if character.is_control() && character != '\t' { '\u{fffd}' } else { character }
            },
        )
        .collect()
}

/// Opens all consoles for reading, with these options.
fn open_all(with: impl Fn(&mut OpenOptions) -> &mut OpenOptions) -> Vec<File> {
    let active = active();
    let names = others(&active).into_iter().chain([FIRST]);
    names.filter_map(|name| with(options().read(true)).open(device(name)).ok()).collect()
}

fn active() -> String {
    fs::read_to_string(ACTIVE).unwrap_or_default()
}

/// The consoles except the one that is `/dev/console`.
fn others(active: &str) -> Vec<&str> {
    let mut names: Vec<&str> = active.split_whitespace().collect();
    names.pop();
    names
}

/// Opens a terminal of this name for writing, if it exists.
fn terminal(name: &str) -> Option<File> {
    without_waiting(options().write(true)).open(device(name)).ok()
}

/// The options to open a console, which must not become this program's controlling terminal: then
/// somebody could end the program from it.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NOCTTY.bits() as i32);
    options
}

/// The same for a console that makes no program wait.
fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags((OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32)
}

fn device(name: &str) -> PathBuf {
    Path::new("/dev").join(name)
}

fn write(device: &mut File, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        match device.write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let ready = poll(&mut [PollFd::new(device, PollFlags::OUT)], Some(&TIMEOUT));
                if !matches!(ready, Ok(1..)) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_console_is_not_opened_twice() {
        assert_eq!(others("tty0 ttyS0\n"), ["tty0"]);
        assert!(others("ttyS0\n").is_empty() && others("").is_empty());
    }

    #[test]
    fn a_control_sequence_cannot_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\td"), "a\u{fffd}[2Jb\u{fffd}c\td");
    }
}
