//! The files on DATA with the settings that requests over the socket `host` have given values: one
//! on each line.

use std::borrow::Cow;
use std::io;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use osbuild_protocol::{MAX_PARAMETERS, Refusal, RefusalCode, Setting, SettingName};

use super::fallback::{Kept, Proof};
use crate::data;

/// The file with the newest ones.
const FILE: &str = "host-settings";
/// The file with those with which the node was ready last.
const GOOD: &str = "host-settings-good";
/// The file with those from which the node has gone back, until a client takes note of that.
const BAD: &str = "host-settings-bad";
/// The file with the number of starts that have failed since, in decimal digits.
const FAILURES: &str = "host-settings-failures";
/// The maximum length of that file in bytes.
const MAX_COUNT_LENGTH: u64 = 16;
/// The maximum length of the file in bytes: that of all settings, each as long as it can be, and
/// of as many that are refused.
pub const MAX_LENGTH: u64 = 672 << 10;
/// The maximum number of lines that are kept although they are refused.
const MAX_REFUSED: usize = MAX_PARAMETERS;

/// Reads what there is, and returns why the newest settings are not among it. Then the good ones
/// take their place. Anything else that cannot be read counts as missing.
pub fn read() -> (Kept, Outcome) {
    match data::folder::open() {
        Ok(data) => read_from(&data),
        Err(failure) => (Kept::default(), Err(failure)),
    }
}

/// Replaces the newest settings, flushed to the disk. Starts that failed with others do not count
/// for these.
pub fn write(text: &str) -> Outcome {
    let data = data::folder::open()?;
    remove(&data, FAILURES)?;
    replace(&data, FILE, text)
}

/// Keeps the number of failed starts.
pub fn count(failures: u32) -> Outcome {
    replace(&data::folder::open()?, FAILURES, &format!("{failures}\n"))
}

/// Keeps what the node has shown by being ready.
pub fn prove(proof: &Proof) -> Outcome {
    prove_in(&data::folder::open()?, proof)
}

/// Keeps that a client knows that the node has gone back.
pub fn acknowledge() -> Outcome {
    remove(&data::folder::open()?, BAD)
}

fn read_from(data: &Folder) -> (Kept, Outcome) {
    // A damaged byte costs its line, which is refused, and no other.
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let other = |name, length| data.read(name, length).ok().flatten().map(text);
    let failures = other(FAILURES, MAX_COUNT_LENGTH).and_then(|text| text.trim().parse().ok());
    let good = other(GOOD, MAX_LENGTH);
    let (newest, outcome) = match data.read(FILE, MAX_LENGTH) {
        Ok(bytes) => (bytes.map(text), Ok(())),
        Err(error) => (good.clone(), Err(unreadable(error, good.is_some()))),
    };
    let kept = Kept {
        newest: newest.unwrap_or_default(),
        good,
        failures: failures.unwrap_or(0),
        is_unacknowledged: other(BAD, MAX_LENGTH).is_some(),
    };
    (kept, outcome)
}

/// The failure to read the newest settings.
fn unreadable(error: io::Error, has_good: bool) -> Failure {
    let instead = match has_good {
        true => "the settings of the last good start are in their place",
        false => "no settings of requests are in effect",
    };
    Failure::new(format!("{}: {instead}", Failure::of(format_args!("read {FILE} on DATA"), error)))
}

fn prove_in(data: &Folder, proof: &Proof) -> Outcome {
    writes(data, proof).into_iter().try_for_each(|write| write.carry_out(data))
}

/// A change of one file, which a power cut leaves as it was or as it shall be.
enum Write<'p> {
    Replace(&'static str, Cow<'p, str>),
    Remove(&'static str),
}

impl Write<'_> {
    fn carry_out(self, data: &Folder) -> Outcome {
        match self {
            Self::Replace(name, text) => replace(data, name, &text),
            Self::Remove(name) => remove(data, name),
        }
    }
}

/// The changes that keep a fact. Power may fail between any two of them: then the next start is
/// made with the newest settings, or with those to which the node has gone back.
fn writes<'p>(data: &Folder, proof: &'p Proof) -> Vec<Write<'p>> {
    let put = |name, text: &'p String| Write::Replace(name, text.into());
    let bad = || Write::Replace(BAD, read_from(data).0.newest.into());
    match proof {
        Proof::NoFailure => vec![Write::Remove(FAILURES)],
        // A ready start has not failed, also if the disk has no room for what it has proved.
        Proof::Good(text) => vec![Write::Remove(FAILURES), put(GOOD, text)],
        Proof::TakenBack(text) => vec![bad(), put(FILE, text)],
        Proof::GoneBack(text) => {
            vec![bad(), Write::Remove(FAILURES), put(GOOD, text), put(FILE, text)]
        }
    }
}

fn replace(data: &Folder, name: &str, text: &str) -> Outcome {
    // The lines have secrets, as those of registries.
    data.replace(name, text.as_bytes(), 0o600).explain(format_args!("write {name} on DATA"))
}

fn remove(data: &Folder, name: &str) -> Outcome {
    data.remove(name).explain(format_args!("remove {name} from DATA"))
}

/// The text for these settings, and for the lines that were refused.
pub fn text(settings: impl Iterator<Item = Setting>, refused: &Refused) -> String {
    let lines = settings.map(|setting| setting.line()).chain(refused.0.iter().cloned());
    lines.map(|line| format!("{line}\n")).collect()
}

/// Reads a line of the file.
///
/// # Errors
/// It is malformed, or a byte of it was damaged: some settings would take that as well.
pub fn parse(line: &str) -> Result<Setting, Refusal> {
    if line.contains(char::REPLACEMENT_CHARACTER) {
        let word = line.split(' ').next().unwrap_or_default();
        let reason = format!("the setting `{word}` on DATA has a damaged byte");
        return Err(Refusal::new(RefusalCode::Malformed, reason));
    }
    Setting::parse(line)
}

/// Lines of the file that this release refuses. They are kept: the release that wrote them may run
/// again.
#[derive(Default)]
pub struct Refused(Vec<String>);

impl Refused {
    /// Adds a line, unless there are too many.
    pub fn add(&mut self, line: &str) {
        if self.0.len() < MAX_REFUSED {
            self.0.push(line.to_owned());
        }
    }

    /// Forgets the line about a setting.
    pub fn forget(&mut self, name: &SettingName) {
        let is_about = |line: &String| Setting::parse(line).is_ok_and(|line| line.name() == *name);
        self.0.retain(|line| !is_about(line));
    }

    /// Those that are settings of a form that this release knows.
    pub fn settings(&self) -> impl Iterator<Item = Setting> {
        self.0.iter().filter_map(|line| Setting::parse(line).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fallback::Fallback;
    use super::*;

    fn setting(line: &str) -> Setting {
        Setting::parse(line).unwrap()
    }

    #[test]
    fn a_refused_line_stays_in_the_file_until_its_setting_is_withdrawn() {
        let mut refused = Refused::default();
        refused.add("colour red");
        refused.add("kernel-parameter kernel.panic 0");
        let name = setting("host-name edge-7");
        let kept = |refused: &Refused| text([name.clone()].into_iter(), refused);
        let all = "host-name edge-7\ncolour red\nkernel-parameter kernel.panic 0\n";
        assert_eq!(kept(&refused), all);
        assert_eq!(refused.settings().count(), 1);
        refused.forget(&name.name());
        assert_eq!(kept(&refused), all);
        refused.forget(&setting("kernel-parameter kernel.panic 1").name());
        assert_eq!(kept(&refused), "host-name edge-7\ncolour red\n");
    }

    const NEW: &str = "host-name new\n";
    const OLD: &str = "host-name old\n";

    /// DATA of a node that has gone back, or is about to.
    fn data() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap();
        (place, folder)
    }

    fn kept(newest: &str, good: Option<&str>, failures: u32, is_unacknowledged: bool) -> Kept {
        let (newest, good) = (newest.to_owned(), good.map(str::to_owned));
        Kept { newest, good, failures, is_unacknowledged }
    }

    /// Reads all that there is, without a failure.
    fn read_all(data: &Folder) -> Kept {
        let (kept, outcome) = read_from(data);
        assert_eq!(outcome, Ok(()));
        kept
    }

    #[test]
    fn a_damaged_byte_costs_no_other_line() {
        let (_place, data) = data();
        let damaged = b"host-name ol\xff\nkernel-parameter vm.swappiness 10\n";
        for name in [FILE, GOOD] {
            data.replace(name, damaged, 0o600).unwrap();
        }
        let read = "host-name ol\u{fffd}\nkernel-parameter vm.swappiness 10\n";
        assert_eq!(read_all(&data), kept(read, Some(read), 0, false));
        assert_eq!(read.lines().filter_map(|line| parse(line).ok()).count(), 1);
        let pod = "static-pod web container=a image=b arg=a\u{fffd}";
        assert!(Setting::parse(pod).is_ok() && parse(pod).is_err());
    }

    #[test]
    fn the_good_settings_take_the_place_of_newest_ones_that_cannot_be_read() {
        let (_place, data) = data();
        replace(&data, FILE, &"a".repeat(MAX_LENGTH as usize + 1)).unwrap();
        let (found, outcome) = read_from(&data);
        assert_eq!(found, Kept::default());
        assert!(outcome.unwrap_err().to_string().contains("no settings of requests"));
        replace(&data, GOOD, OLD).unwrap();
        replace(&data, FAILURES, "1").unwrap();
        let (found, outcome) = read_from(&data);
        assert_eq!(found, kept(OLD, Some(OLD), 1, false));
        assert!(outcome.unwrap_err().to_string().contains("the last good start"));
    }

    #[test]
    fn the_files_show_what_the_node_has_proved() {
        let (_place, data) = data();
        assert_eq!(read_all(&data), Kept::default());
        replace(&data, FILE, NEW).unwrap();
        replace(&data, FAILURES, "2\n").unwrap();
        assert_eq!(read_all(&data), kept(NEW, None, 2, false));
        prove_in(&data, &Proof::Good(NEW.to_owned())).unwrap();
        assert_eq!(read_all(&data), kept(NEW, Some(NEW), 0, false));
        replace(&data, FAILURES, "1\n").unwrap();
        prove_in(&data, &Proof::NoFailure).unwrap();
        assert_eq!(read_all(&data), kept(NEW, Some(NEW), 0, false));
        replace(&data, FAILURES, "1\n").unwrap();
        prove_in(&data, &Proof::TakenBack(OLD.to_owned())).unwrap();
        assert_eq!(read_all(&data), kept(OLD, Some(NEW), 1, true));
        prove_in(&data, &Proof::GoneBack(OLD.to_owned())).unwrap();
        assert_eq!(read_all(&data), kept(OLD, Some(OLD), 0, true));
    }

    #[test]
    fn a_power_cut_between_two_writes_leaves_the_newest_settings_or_the_earlier_ones() {
        let of = |proof: fn(String) -> Proof, text: &str| proof(text.to_owned());
        for (proof, before) in [
            (Proof::NoFailure, kept(NEW, Some(NEW), 2, false)),
            (of(Proof::Good, NEW), kept(NEW, Some(OLD), 2, false)),
            (of(Proof::TakenBack, OLD), kept(NEW, Some(OLD), 0, false)),
            (of(Proof::GoneBack, OLD), kept(NEW, Some(OLD), 3, false)),
            (of(Proof::GoneBack, ""), kept(NEW, Some(OLD), 6, false)),
        ] {
            let (_place, data) = data();
            let put = |name, text: &str| replace(&data, name, text).unwrap();
            put(FILE, &before.newest);
            before.good.iter().for_each(|good| put(GOOD, good));
            put(FAILURES, &before.failures.to_string());
            let allowed = [NEW, Fallback::new(before, false).text()].map(str::to_owned);
            for write in writes(&data, &proof) {
                write.carry_out(&data).unwrap();
                let start = Fallback::new(read_all(&data), false);
                let is_allowed = allowed.iter().any(|text| text == start.text())
                    || matches!(&proof, Proof::TakenBack(text) if text == start.text());
                assert!(is_allowed, "{proof:?}: {:?}", start.text());
            }
        }
    }

    #[test]
    fn a_malformed_number_of_failures_is_none() {
        let (_place, data) = data();
        for text in ["", "many", "-1", "4294967296"] {
            replace(&data, FAILURES, text).unwrap();
            assert_eq!(read_all(&data).failures, 0, "{text}");
        }
    }

    #[test]
    fn the_number_of_refused_lines_is_bounded() {
        let mut refused = Refused::default();
        (0..2 * MAX_REFUSED).for_each(|number| refused.add(&format!("colour {number}")));
        assert_eq!(text([].into_iter(), &refused).lines().count(), MAX_REFUSED);
    }
}
