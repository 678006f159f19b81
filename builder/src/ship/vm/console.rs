//! Parses the serial console of a node into lines, and the phrases of [`osbuild_abi::console`] in
//! them into events.

use osbuild_abi::console::{
    ADDRESS, FAILED, JOINED, LOW_RAM, PHASE, PREFIX, READY, SLOTBOOT_STOPPED, SLOTBOOT_TOOK,
};
use std::time::Duration;

/// A line of more bytes is split: it is not text.
const MAX_LINE: usize = 16 << 10;

/// The start of the kernel's panic message.
const PANIC: &str = "Kernel panic - not syncing";

/// The messages of the UEFI firmware (edk2) when it cannot boot from the disk: it starts its shell,
/// if it has one.
const NOTHING_TO_BOOT: [&str; 2] =
    ["UEFI Interactive Shell", "No bootable option or device was found"];

/// The parts of the firmware's message about a program that Secure Boot rejects.
const REFUSED: [&str; 2] = ["BdsDxe: failed to ", ": Access Denied"];

/// One line of the console without control characters, and its meaning.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The line's text.
    pub text: String,
    /// The event, if the line has one of the phrases.
    pub event: Option<Event>,
}

/// The meaning of a line of the console.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A phase of the boot has ended.
    Phase {
        /// Its name.
        name: String,
        /// Seconds since the kernel started.
        seconds: f64,
    },
    /// slotboot starts the slot that it chose.
    Chosen(Choice),
    /// The node has an address: `ADDRESS/PREFIX-LENGTH on LINK`.
    Address(String),
    /// The machine has less memory than its board requires.
    LowRam(String),
    /// The kubelet is healthy and every declared pod runs.
    Ready,
    /// The node is Ready in its cluster.
    Joined,
    /// The node, its kernel or its firmware failed, with the reason.
    Failed(String),
}

/// The time that slotboot needed to choose and load a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Choice {
    /// The time of slotboot's own code.
    pub own: Duration,
    /// The time to hash the UKI. slotboot does not hash it if the firmware verifies it.
    pub hash: Duration,
    /// The time of the firmware to load, and maybe verify, the UKI.
    pub load: Duration,
}

/// Splits the console's bytes into lines, without terminal escape sequences.
#[derive(Debug, Default)]
pub struct Console {
    line: Vec<u8>,
    escape: Escape,
}

/// The position in a terminal escape sequence (ECMA-48).
#[derive(Debug, Default, PartialEq)]
enum Escape {
    /// Outside any sequence.
    #[default]
    Outside,
    /// After the escape character.
    Begun,
    /// In a control sequence, which ends with a byte from `@` to `~`.
    Control,
}

impl Console {
    /// Parses the next bytes, and returns the lines that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Line> {
        bytes.iter().filter_map(|&byte| self.take(byte)).collect()
    }

    /// Returns the last line if it has no end.
    pub fn rest(&mut self) -> Option<Line> {
        (!self.line.is_empty()).then(|| self.end())
    }

    fn take(&mut self, byte: u8) -> Option<Line> {
        match (&self.escape, byte) {
            (Escape::Begun, b'[') => self.escape = Escape::Control,
            (Escape::Begun, _) | (Escape::Control, b'@'..=b'~') => self.escape = Escape::Outside,
            (Escape::Control, _) => {}
            (Escape::Outside, 0x1b) => self.escape = Escape::Begun,
            (Escape::Outside, b'\n') => return Some(self.end()),
            (Escape::Outside, b'\t' | b' '..=b'~' | 0x80..) => {
                self.line.push(byte);
                if self.line.len() >= MAX_LINE {
                    return Some(self.end());
                }
            }
            (Escape::Outside, _) => {}
        }
        None
    }

    fn end(&mut self) -> Line {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.line)).trim_end().to_owned();
        let event = read(&text);
        Line { text, event }
    }
}

/// Parses one line. Other output of the kernel or the firmware may precede a phrase.
pub fn read(line: &str) -> Option<Event> {
    let after = |phrase| line.find(phrase).map(|start| line[start + str::len(phrase)..].trim());
    if let Some(rest) = after(PHASE) {
        let (name, seconds) = rest.split_once(' ')?;
        return Some(Event::Phase {
            name: name.to_owned(),
            seconds: seconds.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite())?,
        });
    }
    if let Some(rest) = after(SLOTBOOT_TOOK) {
        return choice(rest).map(Event::Chosen);
    }
    if let Some(address) = after(ADDRESS) {
        return Some(Event::Address(address.to_owned()));
    }
    if let Some(why) = after(FAILED) {
        let why = why.trim_start_matches(':').trim_start();
        return Some(Event::Failed(format!(
            "`init` failed: {}",
            if why.is_empty() { "it gave no reason" } else { why }
        )));
    }
    if after(READY).is_some() {
        return Some(Event::Ready);
    }
    if line.starts_with(PREFIX) && line.ends_with(JOINED) {
        return Some(Event::Joined);
    }
    if let Some(start) = line.find(LOW_RAM) {
        return Some(Event::LowRam(line[start..].to_owned()));
    }
    if let Some(why) = after(PANIC) {
        return Some(Event::Failed(format!(
            "the kernel panicked: {}",
            why.trim_start_matches(':').trim_start()
        )));
    }
    if let Some(why) = after(SLOTBOOT_STOPPED) {
        return Some(Event::Failed(format!("slotboot did not start a slot: {why}")));
    }
    if REFUSED.iter().all(|part| line.contains(part)) {
        return Some(Event::Failed(
            "Secure Boot: the image has no signature that the firmware trusts".to_owned(),
        ));
    }
    let nothing = NOTHING_TO_BOOT.into_iter().find_map(after);
    nothing.map(|_| Event::Failed("the firmware could not boot from the disk".to_owned()))
}

/// Parses the numbers in slotboot's line.
fn choice(line: &str) -> Option<Choice> {
    let mut seconds =
        line.split(' ').filter_map(|word| Duration::try_from_secs_f64(word.parse().ok()?).ok());
    Some(Choice { own: seconds.next()?, hash: seconds.next()?, load: seconds.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(console: &mut Console, bytes: &[u8]) -> Vec<String> {
        console.feed(bytes).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn the_line_of_init_about_its_cluster_is_an_event() {
        let line = "init: kubelet: node `plane-1` is Ready in its cluster";
        assert_eq!(read(line), Some(Event::Joined));
        assert_eq!(read("init: kubelet: node `plane-1` is Ready in its clusters"), None);
    }

    #[test]
    fn terminal_escape_sequences_are_removed() {
        let mut console = Console::default();
        assert_eq!(
            texts(
                &mut console,
                b"\x1b[2J\x1b[01;01H\x1b[=3hBdsDxe: start\x1b[0m ing\r\n\x07ok\t1\n"
            ),
            ["BdsDxe: start ing", "ok\t1"]
        );
    }

    #[test]
    fn a_line_may_come_in_pieces() {
        let mut console = Console::default();
        assert_eq!(console.feed(b"init: RE"), []);
        assert_eq!(console.feed(b"ADY\r"), []);
        assert_eq!(
            console.feed(b"\n"),
            [Line { text: "init: READY".into(), event: Some(Event::Ready) }]
        );
        assert_eq!(console.rest(), None);
    }

    #[test]
    fn a_line_without_an_end_is_not_lost() {
        let mut console = Console::default();
        console.feed(b"init: FAILED no disk");
        assert_eq!(
            console.rest().unwrap().event,
            Some(Event::Failed("`init` failed: no disk".into()))
        );
    }

    #[test]
    fn a_phase_has_a_name_and_seconds() {
        assert_eq!(
            read("[    4.01] init: phase mounts 4.013"),
            Some(Event::Phase { name: "mounts".into(), seconds: 4.013 })
        );
        assert_eq!(read("init: phase mounts soon"), None);
        assert_eq!(read("init: phase mounts NaN"), None);
    }

    #[test]
    fn slotboot_reports_three_times() {
        let [own, hash, load] = [120, 4500, 300].map(Duration::from_millis);
        let line = "slotboot: took 0.120 s, to hash 4.500 s, the firmware to load 0.300 s";
        assert_eq!(read(line), Some(Event::Chosen(Choice { own, hash, load })));
        assert_eq!(
            read("slotboot: took 0.120 s, to hash -1 s, the firmware to load 1e300 s"),
            None
        );
    }

    #[test]
    fn an_address_is_kept_as_printed() {
        assert_eq!(
            read("init: address 10.0.2.15/24 on eth0"),
            Some(Event::Address("10.0.2.15/24 on eth0".into()))
        );
    }

    #[test]
    fn a_panic_is_a_failure() {
        let line = "[    1.2] Kernel panic - not syncing: VFS: Unable to mount root fs on \
                    unknown-block(0,0)";
        assert_eq!(
            read(line),
            Some(Event::Failed(
                "the kernel panicked: VFS: Unable to mount root fs on unknown-block(0,0)".into()
            ))
        );
    }

    #[test]
    fn an_empty_disk_is_a_failure() {
        for line in
            ["UEFI Interactive Shell v2.2", "BdsDxe: No bootable option or device was found."]
        {
            assert!(matches!(read(line), Some(Event::Failed(_))));
        }
    }

    #[test]
    fn a_disk_without_a_slot_to_boot_is_a_failure() {
        let why = read("slotboot: STOPPED: no slot can be booted: SLOT-A: it is empty");
        assert_eq!(
            why,
            Some(Event::Failed(
                "slotboot did not start a slot: no slot can be booted: SLOT-A: it is empty".into()
            ))
        );
    }

    #[test]
    fn too_little_memory_is_not_a_failure() {
        let line = "init: memory: too little: 900 MiB, the board asks for 1024 MiB";
        assert_eq!(read(line), Some(Event::LowRam(line.into())));
    }

    proptest! {
        #[test]
        fn any_bytes_give_lines_without_control_characters(bytes: Vec<u8>) {
            let mut console = Console::default();
            let lines = console.feed(&bytes).into_iter().chain(console.rest()).collect::<Vec<_>>();
            let is_plain = |c: char| c == '\t' || !c.is_ascii_control();
            prop_assert!(lines.iter().all(|line| line.text.chars().all(is_plain)));
        }

        #[test]
        fn lines_do_not_depend_on_where_the_stream_is_split(
            bytes: Vec<u8>,
            cut: prop::sample::Index,
        ) {
            let cut = cut.index(bytes.len() + 1);
            let mut whole = Console::default();
            let mut parts = Console::default();
            let lines = [parts.feed(&bytes[..cut]), parts.feed(&bytes[cut..])].concat();
            prop_assert_eq!(whole.feed(&bytes), lines);
        }
    }
}
