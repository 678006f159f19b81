//! The values of labels and taints.

use std::fmt;

use super::label::is_name;
use crate::Refusal;

/// The word for an empty value: no value looks like it.
const EMPTY: &str = "-";

/// The value of a label or a taint, which may be empty. [`Display`](fmt::Display) writes it as a
/// word, with `-` for the empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelValue(String);

impl LabelValue {
    /// Reads a value.
    ///
    /// # Errors
    /// It has more than 63 bytes, others than letters, digits, `-`, `_` and `.`, or begins or ends
    /// with one of these three.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        match text.is_empty() || is_name(text) {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                let reason = format!("`{start}` is not the value of a label or a taint");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// Reads the word that [`Display`](fmt::Display) writes.
    pub(in super::super) fn parse_word(word: &str) -> Result<Self, Refusal> {
        match word {
            EMPTY => Ok(Self::default()),
            "" => Err(Refusal::malformed("there is no value, which is `-` if it is empty")),
            word => Self::parse(word),
        }
    }

    /// The value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LabelValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { EMPTY } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_has_a_word_of_its_own() {
        for (text, word) in [("", "-"), ("a_B.c-1", "a_B.c-1")] {
            let value = LabelValue::parse(text).unwrap();
            assert_eq!((value.as_str(), value.to_string().as_str()), (text, word));
            assert_eq!(LabelValue::parse_word(word), Ok(value));
        }
        for text in ["a b", "\u{e9}", "-", "a-", ".a", &"a".repeat(64)] {
            assert!(LabelValue::parse(text).is_err(), "{text}");
        }
        assert!(LabelValue::parse_word("").is_err());
    }
}
