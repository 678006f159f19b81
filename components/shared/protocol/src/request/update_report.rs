//! The report of the updater about what it does.

use std::fmt;

use super::ReportText;
use crate::Refusal;
use crate::fields::{number, split_trailer, value};

/// The first field, which ends the text.
pub const PHASE: &str = "phase";
/// The most bytes of a version, as in the header of a slot.
const MAX_VERSION: usize = 64;
/// The last second of the year 9999: the last one that RFC 3339 can write.
const MAX_SECONDS: u64 = 253_402_300_799;

/// A report: the text for people, and the facts for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateReport {
    /// The sentence for people: why the updater is in this phase.
    pub text: ReportText,
    /// The phase.
    pub phase: UpdatePhase,
    /// The version that the channel offered last: letters, digits, `.`, `-` and `~`.
    pub offered: Option<String>,
    /// When the last check ended, in seconds since 1970.
    pub checked: Option<u64>,
    /// When the next check begins, in seconds since 1970.
    pub next_check: Option<u64>,
}

/// The phase of the updater.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatePhase {
    /// A phase that this release does not know.
    Unknown,
    /// Its first check has not ended yet.
    Checking,
    /// It has nothing to do until the channel offers another release.
    Idle,
    /// The publisher has stopped the release that the channel offers.
    Held,
    /// The release waits for the node's wave or a maintenance window.
    Waiting,
    /// The state of the slots permits no installation.
    Blocked,
    /// It writes the release to the other slot.
    Downloading {
        /// The bytes of the UKI that have arrived.
        received: u64,
        /// All its bytes.
        total: u64,
    },
    /// The release is in the other slot, and waits for the reboot into it.
    Installed,
    /// The last check has failed.
    Failed,
}

impl UpdateReport {
    /// Reads what `Display` writes, and nothing else.
    ///
    /// # Errors
    /// The text is malformed, or a field is unknown, missing, out of range or out of place.
    pub fn parse(words: &str) -> Result<Self, Refusal> {
        let report = Self::decode(words)
            .filter(|report| report.phase != UpdatePhase::Unknown && report.to_string() == *words);
        report.ok_or_else(|| {
            Refusal::malformed("a report has a short text, a known phase, and fields in order")
        })
    }

    /// The fields.
    pub(crate) fn fields(&self) -> String {
        let mut fields = format!("{PHASE}={}", self.phase.word());
        let mut add = |key: &str, value: &dyn fmt::Display| {
            fields.push_str(&format!(" {key}={value}"));
        };
        if let UpdatePhase::Downloading { received, total } = &self.phase {
            add("received", received);
            add("of", total);
        }
        if let Some(version) = &self.offered {
            add("offered", version);
        }
        if let Some(seconds) = &self.checked {
            add("checked", seconds);
        }
        if let Some(seconds) = &self.next_check {
            add("next", seconds);
        }
        fields
    }

    /// Reads it from an `init` that may be newer: unknown fields are ignored. None if it has no
    /// fields.
    pub(crate) fn decode(words: &str) -> Option<Self> {
        let (text, fields) = split_trailer(words, PHASE);
        let fields = fields?;
        let seconds = |key| number(fields, key).filter(|seconds| *seconds <= MAX_SECONDS);
        let offered = value(fields, "offered").filter(|version| is_version(version));
        Some(Self {
            text: ReportText::new(text),
            phase: UpdatePhase::decode(fields),
            offered: offered.map(str::to_owned),
            checked: seconds("checked"),
            next_check: seconds("next"),
        })
    }
}

impl UpdatePhase {
    /// The word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Checking => "checking",
            Self::Idle => "idle",
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Downloading { .. } => "downloading",
            Self::Installed => "installed",
            Self::Failed => "failed",
        }
    }

    fn decode(fields: &str) -> Self {
        let simple = [
            Self::Checking,
            Self::Idle,
            Self::Held,
            Self::Waiting,
            Self::Blocked,
            Self::Installed,
            Self::Failed,
        ];
        let word = value(fields, PHASE).unwrap_or_default();
        if let Some(phase) = simple.into_iter().find(|phase| phase.word() == word) {
            return phase;
        }
        match (word, number(fields, "received"), number(fields, "of")) {
            ("downloading", Some(received), Some(total)) if received <= total => {
                Self::Downloading { received, total }
            }
            _ => Self::Unknown,
        }
    }
}

/// Whether this is the version of a release, as its document has it.
fn is_version(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b".~-".contains(&byte);
    (1..=MAX_VERSION).contains(&text.len()) && text.bytes().all(is_inside)
}

impl fmt::Display for UpdateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.text, self.fields())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIMES: &str = "checked=1790000000 next=1790003600";

    #[test]
    fn every_phase_is_read_as_it_was_written() {
        for phase in [
            UpdatePhase::Checking,
            UpdatePhase::Idle,
            UpdatePhase::Held,
            UpdatePhase::Waiting,
            UpdatePhase::Blocked,
            UpdatePhase::Downloading { received: 0, total: u64::MAX },
            UpdatePhase::Installed,
            UpdatePhase::Failed,
        ] {
            let report = UpdateReport {
                text: ReportText::new("1.0.1 waits [for what]"),
                phase,
                offered: Some("1.0.1~rc-1".to_owned()),
                checked: Some(MAX_SECONDS),
                next_check: None,
            };
            assert_eq!(UpdateReport::parse(&report.to_string()), Ok(report));
        }
        let longest = "x".repeat(512);
        let line = format!("{longest} [phase=downloading received=1 of=2 offered=1 {TIMES}]");
        assert_eq!(UpdateReport::parse(&line).unwrap().to_string(), line);
    }

    #[test]
    fn what_the_updater_never_writes_is_refused() {
        for words in [
            "",
            "a",
            "[phase=idle]",
            " [phase=idle]",
            "a [phase=dancing]",
            "a [phase=unknown]",
            "a [phase=]",
            "a [phase=downloading]",
            "a [phase=downloading received=2 of=1]",
            "a [phase=downloading received=-1 of=1]",
            "a [phase=idle received=1 of=2]",
            "a [phase=idle phase=held]",
            "a [phase=idle colour=red]",
            "a [phase=idle offered=]",
            "a [phase=idle offered=1/2]",
            "a [phase=idle next=1 checked=1]",
            "a [phase=idle next=01]",
            "a [phase=idle next=soon]",
            "a [phase=idle next=253402300800]",
            "a [phase=idle] ",
            "a\u{1b}[2J [phase=idle]",
            "\u{e4} [phase=idle]",
            &format!("{} [phase=idle]", "x".repeat(513)),
            &format!("a [phase=idle offered={}]", "1".repeat(65)),
        ] {
            assert!(UpdateReport::parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_phase_of_a_newer_release_is_unknown_and_its_fields_are_ignored() {
        let report = UpdateReport::decode("a [phase=dancing partner=b offered=2]").unwrap();
        assert_eq!((report.phase, report.offered.as_deref()), (UpdatePhase::Unknown, Some("2")));
    }

    proptest! {
        #[test]
        fn no_words_make_it_panic(text in ".*", fields in "[ -~]*") {
            let _ = UpdateReport::parse(&format!("{text} [phase={fields}]"));
        }
    }
}
