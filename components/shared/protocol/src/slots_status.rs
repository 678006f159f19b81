//! The state of both slots, and when a new release may be written to the other slot.

use std::fmt::Write;

use crate::boot_report::{FORMAT, reason_fields, reasons};
use crate::fields::{number, printable, split_trailer, value};
use crate::{PassReason, StartReason, VERSION, version0};

/// The state of the slots, or the reason why `init` does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slots {
    /// slotboot has reported which slot it started.
    Known(SlotsStatus),
    /// slotboot has not reported it.
    Unknown,
    /// The disk cannot be read: the reason.
    Unreadable(String),
}

/// Both slots, and what slotboot reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotsStatus {
    /// slotboot's sentence, for people.
    pub why: String,
    /// Why slotboot started the running slot.
    pub started: StartReason,
    /// Why slotboot passed over the other slot at this boot, if it did.
    pub passed: Option<PassReason>,
    /// The running slot.
    pub running: SlotStatus,
    /// The other slot, if the disk has one.
    pub other: Option<SlotStatus>,
    /// Whether the release in the other slot failed without an address or its cluster, and the
    /// running slot does not reach them either, so that the release may be tried once more.
    pub is_outage: bool,
}

/// One slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStatus {
    /// Its name.
    pub name: String,
    /// Its contents.
    pub contents: Contents,
    /// Its state.
    pub state: SlotState,
}

/// The contents of a slot, as its header describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Contents that this release does not know.
    Unknown,
    /// The header of a release. The UKI after it is not checked.
    Release(Release),
    /// No header.
    Empty,
    /// A damaged header: the kind of damage.
    Damaged(String),
    /// The header cannot be read from the disk.
    Unreadable,
}

/// A release, from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The version: printable ASCII without spaces.
    pub version: String,
    /// The start of the UKI's SHA-256, in hexadecimal.
    pub sha256: String,
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// A state that this release does not know.
    Unknown,
    /// It has become good.
    Good,
    /// It has not become good yet.
    OnTrial {
        /// How often slotboot still starts it.
        tries_left: u8,
    },
    /// slotboot does not start it.
    NotBootable,
}

/// The permission to write a new release to the other slot. It requires every fact that keeps an
/// updater from installing the same release endlessly: the running slot is good, and the contents
/// of both slots and the state of the other one are known.
#[derive(Debug)]
pub struct InstallPermit(());

impl SlotsStatus {
    /// Returns the permission to install, or the reason why there is none.
    pub fn permit_install(&self) -> Result<InstallPermit, String> {
        let running = &self.running;
        match running.state {
            SlotState::Good => {}
            SlotState::OnTrial { .. } => return Err(format!("{} is on trial", running.name)),
            state => return Err(format!("{} is {}", running.name, state.words())),
        }
        let other = self.other.as_ref().ok_or("init does not report the other slot")?;
        for slot in [running, other] {
            if matches!(slot.contents, Contents::Unknown | Contents::Unreadable) {
                return Err(format!("what {} holds is {}", slot.name, slot.contents.holds()));
            }
        }
        match other.state {
            SlotState::Unknown => Err(format!("the state of {} is unknown", other.name)),
            SlotState::Good | SlotState::OnTrial { .. } | SlotState::NotBootable => {
                Ok(InstallPermit(()))
            }
        }
    }

    /// Whether slotboot may pass over the other slot at every boot without spending a try, so that
    /// rebooting into it could repeat forever.
    pub fn may_be_passed_over_forever(&self) -> bool {
        self.passed.is_some_and(PassReason::may_last_forever)
    }
}

impl SlotState {
    /// The state in words, for people.
    pub fn words(self) -> String {
        match self {
            Self::Unknown => "in an unknown state".to_owned(),
            Self::Good => "good".to_owned(),
            Self::OnTrial { tries_left } => format!("on trial, tries left: {tries_left}"),
            Self::NotBootable => "not to be booted".to_owned(),
        }
    }

    fn fields(self) -> String {
        match self {
            Self::Unknown => "state=unknown".to_owned(),
            Self::Good => "state=good".to_owned(),
            Self::OnTrial { tries_left } => format!("state=on-trial tries={tries_left}"),
            Self::NotBootable => "state=not-bootable".to_owned(),
        }
    }

    fn decode(fields: &str) -> Self {
        match (value(fields, "state"), number(fields, "tries")) {
            (Some("good"), _) => Self::Good,
            (Some("on-trial"), Some(tries_left)) => Self::OnTrial { tries_left },
            (Some("not-bootable"), _) => Self::NotBootable,
            _ => Self::Unknown,
        }
    }
}

impl Contents {
    /// The contents in words, for people.
    pub fn words(&self) -> String {
        match self {
            Self::Unknown => "unknown".to_owned(),
            Self::Release(Release { version, sha256 }) => {
                format!("version {version}, sha256 {sha256}")
            }
            Self::Empty => "empty".to_owned(),
            Self::Damaged(how) => format!("damaged ({how})"),
            Self::Unreadable => format!("damaged ({})", version0::UNREADABLE),
        }
    }

    fn holds(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Release(_) => "release",
            Self::Empty => "empty",
            Self::Damaged(_) => "damaged",
            Self::Unreadable => "unreadable",
        }
    }

    /// Parses the fields. The kind of damage is in the sentence beside them.
    fn decode(fields: &str, sentence: Option<&SlotStatus>) -> Self {
        match value(fields, "holds") {
            Some("release") => match (value(fields, "version"), value(fields, "sha256")) {
                (Some(version), Some(sha256)) if !version.is_empty() && !sha256.is_empty() => {
                    Self::Release(Release { version: version.into(), sha256: sha256.into() })
                }
                _ => Self::Unknown,
            },
            Some("empty") => Self::Empty,
            Some("damaged") => match sentence.map(|slot| &slot.contents) {
                Some(Self::Damaged(how)) => Self::Damaged(how.clone()),
                _ => Self::Damaged("the reason is unknown".to_owned()),
            },
            Some("unreadable") => Self::Unreadable,
            _ => Self::Unknown,
        }
    }
}

impl SlotStatus {
    fn write(&self, text: &mut String, which: &str) {
        let SlotStatus { name, contents, state } = self;
        let is_known = !matches!(contents, Contents::Unknown) && *state != SlotState::Unknown;
        // Version 0 would treat an unknown state as not bootable, and install.
        if is_known {
            let words = printable(&format!("{}: {}", contents.words(), state.words()));
            let _ = writeln!(text, "slot-{which} {name}, {words}");
        }
        let _ =
            write!(text, "{which}-slot name={name} {} holds={}", state.fields(), contents.holds());
        if let Contents::Release(Release { version, sha256 }) = contents {
            let _ = write!(text, " version={version} sha256={sha256}");
        }
        text.push('\n');
    }

    fn decode(fields: &str, sentence: Option<&SlotStatus>, is_newer: bool) -> Option<Self> {
        let name = value(fields, "name").filter(|name| !name.is_empty())?.to_owned();
        if is_newer {
            return Some(Self { name, contents: Contents::Unknown, state: SlotState::Unknown });
        }
        let contents = Contents::decode(fields, sentence);
        Some(Self { name, contents, state: SlotState::decode(fields) })
    }
}

impl Slots {
    /// The lines, each with its end: the sentences of version 0, then the fields.
    pub fn encode(&self) -> String {
        let status = match self {
            Self::Known(status) => status,
            Self::Unknown => return "slot unknown\n".to_owned(),
            Self::Unreadable(why) => return format!("slot {}\n", printable(why)),
        };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "slot {}", status.running.name);
        let _ = writeln!(text, "slot-why {}", printable(&status.why));
        status.running.write(&mut text, "running");
        if let Some(other) = &status.other {
            other.write(&mut text, "other");
            if status.is_outage {
                let _ = writeln!(text, "slot-outage {}", other.name);
            }
        }
        let _ = writeln!(text, "slot-boot {}", reason_fields(status.started, status.passed));
        text
    }

    /// Reads the lines. Others may be among them.
    ///
    /// # Errors
    /// They say nothing of the slot that runs.
    pub fn decode(lines: &[String]) -> Result<Self, String> {
        let line =
            |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let slot = line("slot").ok_or("there is no line `slot`")?;
        if slot == "unknown" {
            return Ok(Self::Unknown);
        }
        let sentence = |which: &str| line(which).and_then(version0::slot);
        let (running, other) = (sentence("slot-running"), sentence("slot-other"));
        let Some(fields) = line("slot-boot") else {
            let Some(running) = running else { return Ok(Self::Unreadable(slot.to_owned())) };
            // `init` of version 0 repeats slotboot's whole report, with the fields of a newer one.
            let (why, fields) = split_trailer(line("slot-why").unwrap_or_default(), FORMAT);
            let (started, passed) = match fields {
                Some(fields) => reasons(fields),
                None => (StartReason::of_version_0(why), version0::passed(why, &running.name)),
            };
            let (why, is_outage) = (why.to_owned(), line("slot-outage").is_some());
            let status = SlotsStatus { why, started, passed, running, other, is_outage };
            return Ok(Self::Known(status));
        };
        let is_newer = number(fields, "format").is_none_or(|format: u16| format > VERSION);
        let read = |key: &str, sentence: Option<&SlotStatus>| {
            line(key).and_then(|fields| SlotStatus::decode(fields, sentence, is_newer))
        };
        let (started, passed) = reasons(fields);
        let other = read("other-slot", other.as_ref());
        Ok(Self::Known(SlotsStatus {
            why: line("slot-why").unwrap_or_default().to_owned(),
            started,
            passed,
            running: read("running-slot", running.as_ref())
                .ok_or("there is no line `running-slot`")?,
            is_outage: !is_newer && other.is_some() && line("slot-outage").is_some(),
            other,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str, contents: Contents, state: SlotState) -> SlotStatus {
        SlotStatus { name: name.to_owned(), contents, state }
    }

    fn status(running: (Contents, SlotState), other: (Contents, SlotState)) -> SlotsStatus {
        SlotsStatus {
            why: "good".to_owned(),
            started: StartReason::Good,
            passed: None,
            running: slot("SLOT-A", running.0, running.1),
            other: Some(slot("SLOT-B", other.0, other.1)),
            is_outage: false,
        }
    }

    fn release() -> Contents {
        Contents::Release(Release { version: "1".to_owned(), sha256: "4e02fc8e70db".to_owned() })
    }

    fn all_contents() -> [Contents; 5] {
        let damaged = Contents::Damaged("it is torn".to_owned());
        [release(), Contents::Empty, damaged, Contents::Unreadable, Contents::Unknown]
    }

    const STATES: [SlotState; 4] = [
        SlotState::Good,
        SlotState::OnTrial { tries_left: 3 },
        SlotState::NotBootable,
        SlotState::Unknown,
    ];

    #[test]
    fn every_status_is_read_as_it_was_written() {
        for contents in all_contents() {
            for state in STATES {
                let mut written = status((release(), SlotState::Good), (contents.clone(), state));
                written.started = StartReason::OnTrial { tries_left: 1 };
                written.passed = Some(PassReason::Memory);
                written.is_outage = true;
                let text = Slots::Known(written.clone()).encode();
                let lines: Vec<String> = text.lines().map(str::to_owned).collect();
                if state == SlotState::Unknown && matches!(contents, Contents::Damaged(_)) {
                    // How it is damaged is in the sentence, which an unknown state does not have.
                    let other = written.other.as_mut().unwrap();
                    other.contents = Contents::Damaged("the reason is unknown".to_owned());
                }
                assert_eq!(Slots::decode(&lines), Ok(Slots::Known(written)), "{text}");
            }
        }
    }

    #[test]
    fn an_unknown_or_unreadable_state_permits_no_installation() {
        let is_known = |contents: &Contents, state: SlotState| {
            !matches!(contents, Contents::Unknown | Contents::Unreadable)
                && state != SlotState::Unknown
        };
        for contents in all_contents() {
            for state in STATES {
                let other = status((release(), SlotState::Good), (contents.clone(), state));
                assert_eq!(other.permit_install().is_ok(), is_known(&contents, state), "{other:?}");
                let running = status((contents.clone(), state), (release(), SlotState::Good));
                let permitted = is_known(&contents, state) && state == SlotState::Good;
                assert_eq!(running.permit_install().is_ok(), permitted, "{running:?}");
            }
        }
        let mut alone = status((release(), SlotState::Good), (Contents::Empty, SlotState::Good));
        alone.other = None;
        assert!(alone.permit_install().is_err());
    }

    #[test]
    fn values_of_a_newer_version_are_unknown() {
        let text = "slot SLOT-A\nslot-why good\nslot-running SLOT-A, empty: good\n\
                    running-slot name=SLOT-A state=good holds=empty\nslot-outage SLOT-B\n\
                    slot-other SLOT-B, empty: good\nother-slot name=SLOT-B state=good holds=empty\n\
                    slot-boot format=2 started=1\n";
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut unknown = status(
            (Contents::Unknown, SlotState::Unknown),
            (Contents::Unknown, SlotState::Unknown),
        );
        (unknown.started, unknown.passed) = (StartReason::Unknown, Some(PassReason::Unknown));
        assert_eq!(Slots::decode(&lines), Ok(Slots::Known(unknown.clone())));
        assert!(unknown.may_be_passed_over_forever());
    }

    #[test]
    fn a_reworded_sentence_changes_nothing_beside_its_fields() {
        let text = "slot SLOT-A\nslot-why all is well\nslot-running quite different\n\
                    running-slot name=SLOT-A state=good holds=empty colour=blue\n\
                    other-slot name=SLOT-B state=on-trial tries=3 holds=release version=1 \
                    sha256=4e02fc8e70db\nslot-boot format=1 started=1 passed=3 colour=red\n";
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut expected = status(
            (Contents::Empty, SlotState::Good),
            (release(), SlotState::OnTrial { tries_left: 3 }),
        );
        expected.why = "all is well".to_owned();
        expected.passed = Some(PassReason::NotCounted);
        assert_eq!(Slots::decode(&lines), Ok(Slots::Known(expected)));
    }

    #[test]
    fn an_unknown_value_is_unknown() {
        for fields in ["state=frozen holds=lava", "state=on-trial holds=release version=1", ""] {
            let text = format!(
                "slot SLOT-A\nrunning-slot name=SLOT-A {fields}\nslot-boot format=1 started=1"
            );
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let Ok(Slots::Known(status)) = Slots::decode(&lines) else { panic!("{text}") };
            let unknown = slot("SLOT-A", Contents::Unknown, SlotState::Unknown);
            assert_eq!(status.running, unknown, "{text}");
        }
    }
}
