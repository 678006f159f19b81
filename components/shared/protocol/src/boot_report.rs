//! The report of slotboot to `init`, as the text of a volatile UEFI variable:
//! `DISK-GUID SLOT SENTENCE [format=1 started=N tries=N passed=N]`.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use osbuild_abi::disk::{SLOT_A, SLOT_B};
use uuid::Uuid;

use crate::fields::{number, printable, split_trailer, value};
use crate::{PassReason, VERSION};

/// The maximum bytes of the text. Readers with version 0 refuse a longer one.
pub const MAX_REPORT: usize = 512;
/// The first field, whose value is the protocol's version.
pub(crate) const FORMAT: &str = "format";

/// Which slot slotboot started, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootReport {
    /// The disk that slotboot was loaded from.
    pub disk: Uuid,
    /// The name of the slot that it started.
    pub slot: &'static str,
    /// Why it started that slot.
    pub started: StartReason,
    /// Why it did not start the other slot, if that one comes first in the boot order.
    pub passed: Option<PassReason>,
    /// The same as a sentence in printable ASCII, for people.
    pub text: String,
}

/// The reason why slotboot started a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartReason {
    /// A reason that this release does not know.
    Unknown,
    /// The slot is successful: it became good in an earlier boot.
    Good,
    /// The slot is on trial.
    OnTrial {
        /// How many tries it has left besides this one.
        tries_left: u8,
    },
}

impl StartReason {
    /// The number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Self::Unknown => 0,
            Self::Good => 1,
            Self::OnTrial { .. } => 2,
        }
    }

    fn from_fields(fields: &str) -> Self {
        match (number(fields, "started"), number(fields, "tries")) {
            (Some(1u16), _) => Self::Good,
            (Some(2), Some(tries_left)) => Self::OnTrial { tries_left },
            _ => Self::Unknown,
        }
    }

    pub(crate) fn of_version_0(sentence: &str) -> Self {
        let state = sentence.split("; ").next().unwrap_or_default();
        match state.strip_prefix("on trial, tries left: ").map(str::parse) {
            Some(Ok(tries_left)) => Self::OnTrial { tries_left },
            None if state == "good" => Self::Good,
            _ => Self::Unknown,
        }
    }
}

impl BootReport {
    /// Parses the value of the variable. Anybody may have written it, so it is untrusted.
    pub fn decode(bytes: &[u8]) -> Option<BootReport> {
        let text = core::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_REPORT)?;
        let mut words = text.splitn(3, ' ');
        let disk = Uuid::try_parse(words.next()?).ok()?;
        let name = words.next()?;
        let slot = [SLOT_A, SLOT_B].into_iter().find(|slot| *slot == name)?;
        let rest = words.next()?;
        let (text, fields) = split_trailer(rest, FORMAT);
        if text.is_empty() || !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return None;
        }
        let (started, passed) = match fields {
            Some(fields) => reasons(fields),
            None => (StartReason::of_version_0(text), passed_of_version_0(text, slot)),
        };
        Some(BootReport { disk, slot, started, passed, text: text.to_string() })
    }
}

/// Reads these fields. Those of a newer format are unknown.
pub(crate) fn reasons(fields: &str) -> (StartReason, Option<PassReason>) {
    if number(fields, FORMAT).is_none_or(|format: u16| format > VERSION) {
        return (StartReason::Unknown, Some(PassReason::Unknown));
    }
    let passed = value(fields, "passed")
        .map(|_| number(fields, "passed").map_or(PassReason::Unknown, PassReason::from_code));
    (StartReason::from_fields(fields), passed)
}

/// The fields of the reasons, as the variable and `init`'s `status` carry them.
pub(crate) fn reason_fields(started: StartReason, passed: Option<PassReason>) -> String {
    let tries = match started {
        StartReason::OnTrial { tries_left } => format!(" tries={tries_left}"),
        StartReason::Unknown | StartReason::Good => String::new(),
    };
    let passed = passed.map(|reason| format!(" passed={}", reason.code())).unwrap_or_default();
    format!("{FORMAT}={VERSION} started={}{tries}{passed}", started.code())
}

/// Version 0 has the sentence `STATE`, or `STATE; passed over SLOT: REASON`. With any other wording
/// it is unknown whether slotboot passed over the other slot.
pub(crate) fn passed_of_version_0(sentence: &str, started: &str) -> Option<PassReason> {
    let other = if started == SLOT_A { SLOT_B } else { SLOT_A };
    let (state, rest) = sentence.split_once("; ").unwrap_or((sentence, ""));
    if rest.is_empty() && StartReason::of_version_0(state) != StartReason::Unknown {
        return None;
    }
    let reason = rest.strip_prefix("passed over ").and_then(|rest| rest.strip_prefix(other));
    let reason = reason.and_then(|rest| rest.strip_prefix(": "));
    Some(reason.map_or(PassReason::Unknown, PassReason::of_version_0))
}

impl fmt::Display for BootReport {
    /// Writes the value of the variable. The sentence is truncated if necessary, so that the fields
    /// always fit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BootReport { disk, slot, started, passed, text } = self;
        let start = format!("{disk} {slot} ");
        let end = format!(" [{}]", reason_fields(*started, *passed));
        let mut text = printable(text);
        text.truncate(MAX_REPORT - start.len() - end.len());
        write!(f, "{start}{text}{end}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::slot::VENDOR;
    use osbuild_formats::gpt::guid_from_name;
    use proptest::prelude::*;

    const DISK: &str = "881b7c28-2e50-5a7c-bdb6-f8aaeb4bbb06";

    fn decode(rest: &str) -> Option<BootReport> {
        BootReport::decode(format!("{DISK} SLOT-A {rest}").as_bytes())
    }

    #[test]
    fn the_vendor_of_the_variable_is_made_from_its_name() {
        assert_eq!(guid_from_name("slotboot").to_string(), VENDOR);
    }

    #[test]
    fn a_report_without_disk_slot_or_sentence_is_refused() {
        for text in [
            "",
            " ",
            "x SLOT-A good",
            DISK,
            &format!("{DISK} SLOT-A"),
            &format!("{DISK} SLOT-A "),
            &format!("{DISK} SLOT-A  [format=1 started=1]"),
            &format!("{DISK} SLOT-C good"),
            &format!("{DISK} SLOT-A a\nb"),
            &format!("{DISK} SLOT-A {}", "y".repeat(MAX_REPORT)),
        ] {
            assert_eq!(BootReport::decode(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_reworded_sentence_changes_no_reason() {
        let report = decode("whatever it says [format=1 started=1 passed=3]").unwrap();
        assert_eq!(report.passed, Some(PassReason::NotCounted));
        assert_eq!((report.started, report.text.as_str()), (StartReason::Good, "whatever it says"));
    }

    #[test]
    fn an_unknown_key_is_ignored_and_an_unknown_value_is_unknown() {
        let read = |fields: &str| {
            let report = decode(&format!("good [{fields}]")).unwrap();
            (report.started, report.passed)
        };
        let unknown = (StartReason::Unknown, Some(PassReason::Unknown));
        assert_eq!(
            read("format=1 phase=moon started=2 tries=2"),
            (StartReason::OnTrial { tries_left: 2 }, None)
        );
        for fields in [
            "format=1 started=7 passed=99",
            "format=1 started=2 passed=",
            "format=1 passed=x",
            "format=2 started=1 passed=2",
            "format=x started=1",
        ] {
            assert_eq!(read(fields), unknown, "{fields}");
        }
    }

    proptest! {
        #[test]
        fn write_then_read_is_identity(
            disk: u128,
            second: bool,
            tries in proptest::option::of(any::<u8>()),
            passed in proptest::option::of(0u16..13),
            text in "[ -~]{1,400}",
        ) {
            let on_trial = |tries_left| StartReason::OnTrial { tries_left };
            let started = tries.map_or(StartReason::Good, on_trial);
            let slot = if second { SLOT_B } else { SLOT_A };
            let passed = passed.map(PassReason::from_code);
            let report = BootReport { disk: Uuid::from_u128(disk), slot, started, passed, text };
            prop_assert_eq!(BootReport::decode(report.to_string().as_bytes()), Some(report));
        }

        #[test]
        fn a_long_sentence_leaves_room_for_the_reasons(text in ".{0,2000}") {
            let disk = Uuid::from_u128(1);
            let started = StartReason::OnTrial { tries_left: 15 };
            let passed = Some(PassReason::Returned);
            let text = format!("x{text}");
            let report = BootReport { disk, slot: SLOT_A, started, passed, text };
            let written = report.to_string();
            prop_assert!(written.len() <= MAX_REPORT);
            let read = BootReport::decode(written.as_bytes()).unwrap();
            prop_assert_eq!((read.started, read.passed), (started, passed));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: alloc::vec::Vec<u8>) {
            let _ = BootReport::decode(&bytes);
        }
    }
}
