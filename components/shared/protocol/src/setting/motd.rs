//! The message that a node shows on its consoles.

use super::escape::{escaped, unescape};
use crate::Refusal;

/// The maximum number of lines: a screen of 25 lines shows them with the summary of a sick node.
pub const MAX_MOTD_LINES: usize = 10;
/// The maximum columns of a line: `init: motd: ` before it makes 80.
pub const MAX_MOTD_COLUMNS: usize = 68;

/// The message of the day: lines of printable ASCII, so that no byte of it controls a terminal, and
/// each has one column on every screen and serial line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Motd(String);

impl Motd {
    /// Reads a text. Spaces at the ends of its lines, and empty lines at its ends, are left out.
    ///
    /// # Errors
    /// There is nothing else, there are more than 10 lines, one is longer than 68 columns, or one
    /// has another character than printable ASCII.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches(' ')).collect();
        for (number, line) in (1..).zip(&lines) {
            if let Some(wrong) = line.chars().find(|one| !matches!(one, ' '..='~')) {
                let code = u32::from(wrong);
                return Err(Refusal::malformed(format!(
                    "line {number} of the message has the character U+{code:04X}: only printable \
                     ASCII looks the same on every console"
                )));
            }
            if line.len() > MAX_MOTD_COLUMNS {
                let columns = line.len();
                return Err(Refusal::malformed(format!(
                    "line {number} of the message has {columns} columns, and a console shows \
                     {MAX_MOTD_COLUMNS} of it"
                )));
            }
        }
        let text = lines.join("\n");
        let text = text.trim_matches('\n');
        match (1..=MAX_MOTD_LINES).contains(&text.lines().count()) {
            true => Ok(Self(text.to_owned())),
            false => {
                let reason = format!("a message of the day has 1 to {MAX_MOTD_LINES} lines");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// Reads what [`Self::word`] writes.
    pub(super) fn parse_word(word: &str) -> Result<Self, Refusal> {
        let text = unescape(word).filter(|_| !word.contains(' '));
        let malformed = || Refusal::malformed("the message of the day is not one escaped word");
        Self::parse(&text.ok_or_else(malformed)?)
    }

    /// The lines, with a line feed between.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as one word.
    pub(super) fn word(&self) -> String {
        escaped(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_has_its_lines_without_spaces_at_their_ends() {
        let text = "\n  Rack 7, 100 % ours \r\n\nAsk ops@example.org\n\n";
        let motd = Motd::parse(text).unwrap();
        assert_eq!(motd.as_str(), "  Rack 7, 100 % ours\n\nAsk ops@example.org");
        let word = "%20%20Rack%207%2c%20100%20%25%20ours%0a%0aAsk%20ops@example.org";
        assert_eq!(motd.word(), word);
        assert_eq!(Motd::parse_word(word), Ok(motd));
    }

    #[test]
    fn what_controls_a_terminal_or_leaves_the_screen_is_refused() {
        for text in [
            "",
            " \n\n",
            "\u{1b}[2J",
            "a\rb",
            "a\tb",
            "a\u{7}",
            "a\0",
            "\u{9b}31m",
            "a\u{202e}b",
            "\u{7f}",
            "für",
        ] {
            assert!(Motd::parse(text).is_err(), "{text:?}");
        }
        let longest = vec!["a".repeat(MAX_MOTD_COLUMNS); MAX_MOTD_LINES].join("\n");
        assert!(Motd::parse(&longest).is_ok());
        assert!(Motd::parse(&format!("{longest}a")).is_err());
        assert!(Motd::parse(&format!("{longest}\na")).is_err());
        let reason = Motd::parse("a\n\u{1b}[2J").unwrap_err().reason;
        assert!(reason.starts_with("line 2 of the message has the character U+001B"), "{reason}");
        for word in ["a b", "%1b[2J", "%", "%4", "%ff", ""] {
            assert!(Motd::parse_word(word).is_err(), "{word}");
        }
    }

    proptest! {
        #[test]
        fn every_message_is_read_as_it_was_written(text in "([ -~]{0,9}|\\PC|\n){0,6}") {
            if let Ok(motd) = Motd::parse(&text) {
                prop_assert!(motd.as_str().bytes().all(|one| matches!(one, b' '..=b'~' | b'\n')));
                let word = motd.word();
                prop_assert!(word.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert_eq!(Motd::parse(motd.as_str()), Ok(motd.clone()));
                prop_assert_eq!(Motd::parse_word(&word), Ok(motd));
            }
        }
    }
}
