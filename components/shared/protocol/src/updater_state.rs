//! The state of the updater, as the line `updater` in the reply to `status` has it.

use crate::UpdateReport;
use crate::fields::{number, split_trailer, value};

/// The value of the line if the image has no settings of updates.
const NONE: &str = "none";

/// The state of the updater, as far as `init` knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdaterState {
    /// The image has no settings of updates, so no updater runs.
    None,
    /// No updater has reported since the node started.
    Unreported,
    /// The updater has reported.
    Reported {
        /// The last report.
        report: UpdateReport,
        /// When it arrived, in seconds since 1970.
        at: u64,
        /// Whether the updater that made it still runs.
        is_running: bool,
    },
}

impl UpdaterState {
    /// The line with its end. Without a report there is none.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::None => format!("updater {NONE}\n"),
            Self::Unreported => String::new(),
            Self::Reported { report, at, is_running } => {
                let (text, fields) = (&report.text, report.fields());
                let running = if *is_running { "yes" } else { "no" };
                format!("updater {text} [{fields} reported={at} running={running}]\n")
            }
        }
    }

    /// Reads the value of the line. One that this release does not know is no report.
    pub(crate) fn decode(words: &str) -> Self {
        if words == NONE {
            return Self::None;
        }
        let Some(report) = UpdateReport::decode(words) else { return Self::Unreported };
        let fields = split_trailer(words, crate::request::PHASE).1.unwrap_or_default();
        let is_running = value(fields, "running") == Some("yes");
        Self::Reported { report, at: number(fields, "reported").unwrap_or(0), is_running }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_as_it_was_written() {
        let reported = |words: &str, is_running| UpdaterState::Reported {
            report: UpdateReport::parse(words).unwrap(),
            at: 1_790_000_000,
            is_running,
        };
        for state in [
            UpdaterState::None,
            UpdaterState::Unreported,
            reported("none [phase=idle offered=2 checked=1 next=2]", true),
            reported("a [phase=downloading received=1 of=2]", false),
        ] {
            let line = state.encode();
            let words = line.strip_prefix("updater ").map_or("", str::trim_end);
            assert_eq!(UpdaterState::decode(words), state, "{line:?}");
        }
    }

    #[test]
    fn a_state_that_is_unknown_is_no_report_and_no_updater_that_runs() {
        for words in ["", "sleeping", "a [colour=red]"] {
            assert_eq!(UpdaterState::decode(words), UpdaterState::Unreported);
        }
        let state = UpdaterState::decode("a [phase=idle running=perhaps]");
        assert!(matches!(state, UpdaterState::Reported { is_running: false, at: 0, .. }));
    }
}
