//! The machine's consoles: a screen with a keyboard, a serial port, or both. Nobody knows who looks
//! at which, so every line goes to all of them, and an answer may come from any.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// How long a line waits for a console that takes nothing, for example a serial line with flow
/// control. Then it is dropped.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The consoles that the kernel speaks on, in order: the last of them is what [`FIRST`] stands for.
const ACTIVE: &str = "/sys/class/tty/console/active";

/// The one that is there before anything is mounted below `/sys`.
const FIRST: &str = "console";

/// The consoles to write to.
pub struct Consoles {
    devices: Vec<File>,
}

impl Consoles {
    /// Opens `/dev/console` alone. A machine may have none; then nothing is said anywhere.
    pub fn first() -> Consoles {
        Consoles { devices: terminal(FIRST).into_iter().collect() }
    }

    /// Opens the others as well. `/sys` has to be mounted.
    pub fn open_others(&mut self) {
        self.devices.extend(others(&active()).into_iter().filter_map(terminal));
    }

    /// Writes a line to all of them, without what only a terminal understands.
    pub fn line(&mut self, line: &str) {
        // One write, so that it does not mix with what others write.
        let bytes = format!("{}\n", printable(line)).into_bytes();
        for device in &mut self.devices {
            write(device, &bytes);
        }
    }
}

/// The lines that are typed on any console from now on. It ends at once if there is none that can
/// be read.
pub fn typed() -> Receiver<String> {
    let (sender, receiver) = channel();
    let active = active();
    let names: Vec<&str> = others(&active).into_iter().chain([FIRST]).collect();
    for console in names.into_iter().filter_map(|name| options().read(true).open(device(name)).ok())
    {
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

/// A line as a terminal can show it: what a daemon, a client or a disk's maker wrote must not move
/// its cursor or end its line.
pub fn printable(line: &str) -> String {
    line.chars()
        .map(
            |character| {
                if character.is_control() && character != '\t' { '\u{fffd}' } else { character }
            },
        )
        .collect()
}

fn active() -> String {
    fs::read_to_string(ACTIVE).unwrap_or_default()
}

/// The consoles but for the one that is `/dev/console`.
fn others(active: &str) -> Vec<&str> {
    let mut names: Vec<&str> = active.split_whitespace().collect();
    names.pop();
    names
}

/// Opens a terminal of this name, to write to it, if it is there.
fn terminal(name: &str) -> Option<File> {
    options()
        .write(true)
        .custom_flags((OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32)
        .open(device(name))
        .ok()
}

/// A console must not become the terminal of this program, by which somebody could end it.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NOCTTY.bits() as i32);
    options
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
                let ready = poll(&mut [PollFd::new(device, PollFlags::OUT)], Some(&PATIENCE));
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
    fn the_console_that_is_open_already_is_not_opened_again() {
        assert_eq!(others("tty0 ttyS0\n"), ["tty0"]);
        assert!(others("ttyS0\n").is_empty() && others("").is_empty());
    }

    #[test]
    fn a_control_sequence_cannot_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\td"), "a\u{fffd}[2Jb\u{fffd}c\td");
    }
}
