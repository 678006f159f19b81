//! The machine's power button, and every other input device with a power key. A hypervisor's
//! request to power off comes as a press of it, too.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirEntryExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::sys;

/// The folder of the input devices.
const DEVICES: &str = "/dev/input";

/// How often to look for new devices: the kernel finds some after `init` has started.
const INTERVAL: Duration = Duration::from_secs(5);

/// `EV_KEY` and `KEY_POWER` of `linux/input-event-codes.h`.
const EV_KEY: u16 = 1;
const KEY_POWER: u16 = 116;

/// The value of the event of a key that goes down. It is 0 when the key comes up, and 2 repeatedly
/// while it is held.
const PRESSED: i32 = 1;

/// Bytes of a `struct input_event` on 64-bit machines: the time, then type, code and value.
const EVENT: usize = 24;

/// How many events of a device are read in a turn. The kernel buffers fewer for a reader.
const MAX_EVENTS: usize = 256;

/// The devices that have a power key.
#[derive(Default)]
pub struct Buttons {
    devices: Vec<Button>,
    /// Every device that was examined, by its name and inode number: a later device with the same
    /// name has another number.
    seen: BTreeSet<(OsString, u64)>,
    /// When to look for devices next, since boot.
    due: Duration,
}

struct Button {
    key: (OsString, u64),
    file: File,
}

impl Buttons {
    /// The descriptors that become readable on a press.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.devices.iter().map(|button| button.file.as_fd())
    }

    /// When to look for devices next, since boot.
    pub fn deadline(&self) -> Duration {
        self.due
    }

    /// Looks for devices, if it is time to. Returns the names of new ones with a power key.
    pub fn look(&mut self, now: Duration) -> Vec<String> {
        if now < self.due {
            return Vec::new();
        }
        self.due = now + INTERVAL;
        let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
        let events = entries.filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with("event"))
        });
        let there: BTreeSet<_> = events.map(|entry| (entry.file_name(), entry.ino())).collect();
        let new: Vec<_> = there.difference(&self.seen).cloned().collect();
        let new = new.into_iter().filter_map(|key| {
            let file = open(&Path::new(DEVICES).join(&key.0))?;
            let name = name(&key.0);
            self.devices.push(Button { key, file });
            Some(name)
        });
        let new = new.collect();
        self.devices.retain(|button| there.contains(&button.key));
        self.seen = there;
        new
    }

    /// Whether a power key was pressed since the last call.
    pub fn was_pressed(&mut self) -> bool {
        let mut all = 0;
        // All are read to their end, so that none stays readable. One that was unplugged would.
        self.devices.retain_mut(|button| {
            let (presses, is_there) = presses(&mut button.file);
            all += presses;
            is_there
        });
        all > 0
    }
}

/// Opens a device, if it has a power key.
fn open(path: &Path) -> Option<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let device = File::options().read(true).custom_flags(flags).open(path).ok()?;
    sys::has_key(&device, KEY_POWER).is_ok_and(|has| has).then_some(device)
}

/// The kernel's name of a device.
fn name(event: &OsString) -> String {
    let path = Path::new("/sys/class/input").join(event).join("device/name");
    let name = fs::read_to_string(path).unwrap_or_default();
    if name.trim().is_empty() {
        event.to_string_lossy().into_owned()
    } else {
        name.trim().to_owned()
    }
}

/// How often the power key went down, according to the events that wait in a device; and whether it
/// can be read further.
fn presses(device: &mut impl Read) -> (usize, bool) {
    let mut presses = 0;
    let mut event = [0; EVENT];
    for _ in 0..MAX_EVENTS {
        // The kernel gives whole events.
        match device.read(&mut event) {
            Ok(EVENT) => presses += usize::from(is_press(&event)),
            Ok(_) => break,
            Err(error) => {
                let stays = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                return (presses, stays);
            }
        }
    }
    (presses, true)
}

fn is_press(event: &[u8; EVENT]) -> bool {
    let [.., a, b, c, d, e, f, g, h] = *event;
    let (kind, code) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
    (kind, code, i32::from_ne_bytes([e, f, g, h])) == (EV_KEY, KEY_POWER, PRESSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `KEY_SLEEP`, `KEY_A` and `EV_SYN`.
    const SLEEP: u16 = 142;
    const LETTER: u16 = 30;
    const SYN: u16 = 0;

    fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
        let time = [0xEE; 16];
        [&time[..], &kind.to_ne_bytes(), &code.to_ne_bytes(), &value.to_ne_bytes()].concat()
    }

    #[test]
    fn only_a_press_of_the_power_key_counts() {
        assert_eq!(presses(&mut event(EV_KEY, KEY_POWER, 1).as_slice()).0, 1);
        for (kind, code, value) in [
            (EV_KEY, KEY_POWER, 0),
            (EV_KEY, KEY_POWER, 2),
            (EV_KEY, SLEEP, 1),
            (EV_KEY, LETTER, 1),
            (SYN, KEY_POWER, 1),
        ] {
            assert_eq!(
                presses(&mut event(kind, code, value).as_slice()).0,
                0,
                "{kind} {code} {value}"
            );
        }
    }

    #[test]
    fn a_key_that_is_held_counts_once() {
        let events: Vec<u8> =
            [1, 2, 2, 2, 0].into_iter().flat_map(|value| event(EV_KEY, KEY_POWER, value)).collect();
        assert_eq!(presses(&mut events.as_slice()).0, 1);
    }

    #[test]
    fn a_device_that_was_unplugged_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (reader, _writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        // A read of a folder is an error, too.
        let files = [File::open(folder.path()).unwrap(), reader.into()];
        let devices = files.map(|file| Button { key: (OsString::new(), 0), file });
        let mut buttons = Buttons { devices: devices.into(), ..Buttons::default() };
        assert!(!buttons.was_pressed());
        assert_eq!(buttons.descriptors().count(), 1, "one has nothing to read now");
    }

    #[test]
    fn a_flood_of_events_does_not_hold_up_the_loop() {
        let events = event(EV_KEY, LETTER, 1).repeat(MAX_EVENTS + 7);
        let mut rest = events.as_slice();
        assert_eq!(presses(&mut rest).0, 0);
        assert_eq!(rest.len(), 7 * EVENT);
    }

    #[test]
    fn a_file_other_than_an_input_device_has_no_power_key() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(open(file.path()).is_none() && open(Path::new("/dev/null")).is_none());
    }
}
