//! The machine's power button, and whatever else has a key for that: a hypervisor's request to
//! power off comes as a press of it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirEntryExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::node::Node;
use crate::shutdown::End;
use crate::sys;
use crate::uptime::uptime;

/// What it is called on the console.
const NAME: &str = "power-button";

/// Where the kernel shows input devices.
const DEVICES: &str = "/dev/input";

/// How often to look for new ones: some are found a moment after `init` has started.
const INTERVAL: Duration = Duration::from_secs(5);

/// `EV_KEY` and `KEY_POWER` of `linux/input-event-codes.h`.
const EV_KEY: u16 = 1;
const KEY_POWER: u16 = 116;

/// The value of a key's event when it goes down. It is 0 when it comes up, and 2 again and again
/// while it is held.
const PRESSED: i32 = 1;

/// Bytes of a `struct input_event` on 64-bit machines: the time, then type, code and value.
const EVENT: usize = 24;

/// How many events a device may tell in a turn. The kernel keeps fewer for a reader.
const MAX_EVENTS: usize = 256;

/// The devices that have a power key.
#[derive(Default)]
pub struct Buttons {
    devices: Vec<Button>,
    /// Every device that was looked at, by its name and the number of its file: another device of
    /// that name has another one.
    seen: BTreeSet<(OsString, u64)>,
    /// When to look for devices next, since boot.
    due: Duration,
}

struct Button {
    key: (OsString, u64),
    file: File,
}

impl Buttons {
    /// Everything that can become readable.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.devices.iter().map(|button| button.file.as_fd())
    }

    /// Looks for devices, if it is time for that. Gives the names of those with a power key that
    /// are new.
    fn look(&mut self, now: Duration) -> Vec<String> {
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

    /// Whether one of them was pressed since the last call.
    fn was_pressed(&mut self) -> bool {
        // All are read to their end, so that none stays readable.
        self.devices.iter_mut().map(|button| presses(&mut button.file)).sum::<usize>() > 0
    }
}

/// Looks whether the power button was pressed: then the node is to power off.
pub fn watch(node: &mut Node) {
    for name in node.buttons.look(uptime()) {
        node.console.say(NAME, format_args!("listens to {name}"));
    }
    if node.buttons.was_pressed() && node.end.is_none() {
        node.console.say(NAME, "was pressed, so the node powers off");
        node.end = Some(End::PowerOff);
    }
}

/// Opens a device, if it has a power key.
fn open(path: &Path) -> Option<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let device = File::options().read(true).custom_flags(flags).open(path).ok()?;
    sys::has_key(&device, KEY_POWER).is_ok_and(|has| has).then_some(device)
}

/// What the kernel calls a device.
fn name(event: &OsString) -> String {
    let path = Path::new("/sys/class/input").join(event).join("device/name");
    let name = fs::read_to_string(path).unwrap_or_default();
    if name.trim().is_empty() {
        event.to_string_lossy().into_owned()
    } else {
        name.trim().to_owned()
    }
}

/// How often the power key went down, by the events that wait in a device.
fn presses(device: &mut impl Read) -> usize {
    let mut presses = 0;
    let mut event = [0; EVENT];
    for _ in 0..MAX_EVENTS {
        // The kernel gives whole events.
        match device.read(&mut event) {
            Ok(EVENT) => presses += usize::from(is_press(&event)),
            _ => break,
        }
    }
    presses
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
    fn only_the_power_key_that_goes_down_counts() {
        assert_eq!(presses(&mut event(EV_KEY, KEY_POWER, 1).as_slice()), 1);
        for (kind, code, value) in [
            (EV_KEY, KEY_POWER, 0),
            (EV_KEY, KEY_POWER, 2),
            (EV_KEY, SLEEP, 1),
            (EV_KEY, LETTER, 1),
            (SYN, KEY_POWER, 1),
        ] {
            assert_eq!(
                presses(&mut event(kind, code, value).as_slice()),
                0,
                "{kind} {code} {value}"
            );
        }
    }

    #[test]
    fn a_key_that_is_held_is_pressed_once() {
        let events: Vec<u8> =
            [1, 2, 2, 2, 0].into_iter().flat_map(|value| event(EV_KEY, KEY_POWER, value)).collect();
        assert_eq!(presses(&mut events.as_slice()), 1);
    }

    #[test]
    fn nobody_who_floods_events_holds_up_the_loop() {
        let events = event(EV_KEY, LETTER, 1).repeat(MAX_EVENTS + 7);
        let mut rest = events.as_slice();
        assert_eq!(presses(&mut rest), 0);
        assert_eq!(rest.len(), 7 * EVENT);
    }

    #[test]
    fn a_file_that_is_no_input_device_has_no_power_key() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(open(file.path()).is_none() && open(Path::new("/dev/null")).is_none());
    }
}
