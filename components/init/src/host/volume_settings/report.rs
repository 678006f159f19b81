//! The report of a volume's child: the state of the volume on the first line, then `error` and
//! `note` lines.

use osbuild_protocol::{VolumePhase, VolumeState};

const ERROR: &str = "error ";
const NOTE: &str = "note ";

/// A volume after the work of its child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its state.
    pub state: VolumeState,
    /// Why it is not as it shall be; empty if it is.
    pub error: String,
    /// Lines for the console.
    pub notes: Vec<String>,
}

impl Report {
    /// The report without notes.
    pub fn new(phase: VolumePhase, device: &str, error: impl Into<String>) -> Report {
        let state = VolumeState { phase, device: device.to_owned(), bytes: 0 };
        Report { state, error: error.into(), notes: Vec::new() }
    }

    /// The text of it.
    pub fn text(&self) -> String {
        let one_line = |text: &String| text.replace(char::is_control, " ");
        let error = match self.error.as_str() {
            "" => String::new(),
            _ => format!("{ERROR}{}\n", one_line(&self.error)),
        };
        let notes = self.notes.iter().map(|note| format!("{NOTE}{}\n", one_line(note)));
        format!("{}\n{error}{}", self.state, notes.collect::<String>())
    }

    /// Reads the text. A child that was killed or has panicked leaves another one, which is an
    /// error.
    pub fn parse(text: &str) -> Report {
        let mut lines = text.lines();
        let Some(state) = lines.next().and_then(VolumeState::parse) else {
            let last = text.lines().last().unwrap_or("its child has ended without a report");
            return Report::new(VolumePhase::Failed, "", last);
        };
        let mut report = Report { state, error: String::new(), notes: Vec::new() };
        for line in lines {
            if let Some(error) = line.strip_prefix(ERROR) {
                error.clone_into(&mut report.error);
            }
            report.notes.extend(line.strip_prefix(NOTE).map(str::to_owned));
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let state =
            VolumeState { phase: VolumePhase::Mounted, device: "vdb".to_owned(), bytes: 1 << 30 };
        let notes = vec!["/dev/vdb was blank, and is formatted".to_owned(), "grown".to_owned()];
        let report = Report { state, error: "grow: no".to_owned(), notes };
        assert_eq!(Report::parse(&report.text()), report);
        let two = Report::new(VolumePhase::Failed, "", "two\nlines");
        assert_eq!(Report::parse(&two.text()).error, "two lines");
        for (text, error) in [
            ("", "its child has ended without a report"),
            ("a\nthread panicked\n", "thread panicked"),
        ] {
            assert_eq!(Report::parse(text), Report::new(VolumePhase::Failed, "", error));
        }
    }
}
