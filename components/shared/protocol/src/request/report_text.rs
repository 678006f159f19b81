//! Reports of pods for people.

use std::fmt;

use crate::Refusal;

/// The longest report in bytes.
const MAX_LENGTH: usize = 512;

/// The text of a report: one line of printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportText(String);

impl ReportText {
    /// Makes a report of any text: what is not printable becomes `?`, and the end of a long text is
    /// left out.
    pub fn new(text: &str) -> Self {
        let printable = |character: char| match character {
            ' '..='~' => character,
            _ => '?',
        };
        let text: String = text.trim().chars().map(printable).take(MAX_LENGTH).collect();
        let text = text.trim_end();
        Self(if text.is_empty() { "nothing" } else { text }.to_owned())
    }

    /// Reads a report.
    ///
    /// # Errors
    /// It is empty, longer than 512 bytes, or has other characters than printable ASCII.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match text.len() <= MAX_LENGTH && *text == Self::new(text).0 {
            true => Ok(Self(text.to_owned())),
            false => Err(Refusal::malformed(format!(
                "a report has 1 to {MAX_LENGTH} printable ASCII characters"
            ))),
        }
    }
}

impl fmt::Display for ReportText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_report_that_is_no_short_line_is_refused() {
        for text in ["", " ", " a", "a\nb", "\u{e4}", &"a".repeat(MAX_LENGTH + 1)] {
            assert!(ReportText::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_report_that_is_accepted(text in "(?s).{0,600}") {
            let report = ReportText::new(&text);
            prop_assert_eq!(ReportText::parse(&report.to_string()), Ok(report));
        }
    }
}
