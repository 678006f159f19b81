//! The lines that a person types at the machine: on the keyboard of its screen, or over its serial
//! line. The kernel edits a line and hands it over whole.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::lines::Lines;
use crate::processes::rate_limit::{Admission, RateLimit};

/// The maximum length of a line in bytes. A longer one is cut.
const MAX_LINE: usize = 200;

/// How often in a row a console may have nothing to read although it seems to. Then it has no
/// carrier, or is gone, and would keep the event loop busy.
const MAX_EMPTY: u32 = 16;

/// The consoles that are read; none by default.
#[derive(Default)]
pub struct Keyboards {
    devices: Vec<Keyboard>,
    /// Bounds the answers to lines that nobody may have typed.
    answers: RateLimit,
}

struct Keyboard {
    device: File,
    lines: Lines,
    empty: u32,
}

impl Keyboards {
    /// Reads these consoles, which do not block.
    pub fn of(consoles: Vec<File>) -> Self {
        let keyboard = |device| Keyboard { device, lines: Lines::default(), empty: 0 };
        let devices = consoles.into_iter().map(keyboard).collect();
        Keyboards { devices, answers: RateLimit::default() }
    }

    /// Whether any is read.
    pub fn are_read(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Whether to answer a line that is no command: a serial line may have noise, or send back all
    /// that it gets. `now` is the time since boot.
    pub fn admit_answer(&mut self, now: Duration) -> bool {
        self.answers.admit(now) != Admission::Hold
    }

    /// The descriptors that become readable when a line was typed.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.devices.iter().map(|one| one.device.as_fd())
    }

    /// The lines that were typed since the last call. Consoles that cannot be read are forgotten.
    pub fn typed(&mut self) -> Vec<String> {
        let mut typed = Vec::new();
        self.devices.retain_mut(|one| one.read(&mut typed));
        typed
    }
}

impl Keyboard {
    /// Reads what is there, once, so that noise on a line does not keep `init` busy. Returns
    /// whether the console is still one to read.
    fn read(&mut self, typed: &mut Vec<String>) -> bool {
        let mut buffer = [0; MAX_LINE];
        match self.device.read(&mut buffer) {
            // A person may end the input, too (Ctrl-D).
            Ok(0) => {
                self.empty += 1;
                return self.empty < MAX_EMPTY;
            }
            Ok(length) => {
                self.empty = 0;
                self.lines.push(&buffer[..length]);
                typed.extend(std::iter::from_fn(|| self.lines.take(MAX_LINE)));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::Write;

    /// A terminal, and the side of it at which a person types.
    fn terminal() -> (File, File) {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
        let console = File::options().read(true).write(true).open(name).unwrap();
        fcntl_setfl(&console, OFlags::NONBLOCK).unwrap();
        (console, person.into())
    }

    #[test]
    fn a_line_is_read_once_it_is_whole_and_as_it_was_corrected() {
        let (console, mut person) = terminal();
        let mut keyboards = Keyboards::of(vec![console]);
        assert_eq!(keyboards.typed(), [""; 0]);
        person.write_all(b"keeq\x7fp").unwrap();
        assert_eq!(keyboards.typed(), [""; 0]);
        person.write_all(b"\r").unwrap();
        assert_eq!(keyboards.typed(), ["keep"]);
        assert!(keyboards.are_read());
    }

    #[test]
    fn the_end_of_the_input_does_not_end_it_but_that_of_the_console_does() {
        let (console, mut person) = terminal();
        let mut keyboards = Keyboards::of(vec![console]);
        person.write_all(b"\x04undo\n").unwrap();
        let typed: Vec<_> = (0..2).flat_map(|_| keyboards.typed()).collect();
        assert_eq!(typed, ["undo"]);
        drop(person);
        (0..MAX_EMPTY).for_each(|_| assert_eq!(keyboards.typed(), [""; 0]));
        assert!(!keyboards.are_read());
    }

    #[test]
    fn answers_to_noise_are_bounded() {
        let mut keyboards = Keyboards::default();
        let admitted = (0..100).filter(|_| keyboards.admit_answer(Duration::from_secs(100)));
        assert_eq!(admitted.count(), 5);
        assert!(keyboards.admit_answer(Duration::from_secs(110)));
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let (console, mut person) = terminal();
        let mut keyboards = Keyboards::of(vec![console]);
        person.write_all(&[&[b'x'; 300][..], b"\n"].concat()).unwrap();
        let typed: Vec<_> = (0..2).flat_map(|_| keyboards.typed()).collect();
        assert_eq!(typed.iter().map(String::len).collect::<Vec<_>>(), [200, 100]);
    }
}
