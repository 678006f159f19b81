//! Texts of a pod, such as an argument, which may have any characters. In a line they are words.

use super::super::escape;
use crate::Refusal;

/// The maximum bytes of a text.
const MAX_LENGTH: usize = 3072;

/// A text without a NUL, which no argument and no variable can have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodText(String);

impl PodText {
    /// This text.
    ///
    /// # Errors
    /// It has a NUL, or more than 3072 bytes.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        match text.len() <= MAX_LENGTH && !text.contains('\0') {
            true => Ok(Self(text.to_owned())),
            false => Err(Refusal::malformed(format!(
                "a text of a static pod has at most {MAX_LENGTH} bytes, and no NUL"
            ))),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as a part of a word.
    pub(super) fn escaped(&self) -> String {
        escape::escaped(&self.0)
    }

    /// Reads what [`Self::escaped`] writes.
    pub(super) fn unescape(word: &str) -> Result<Self, Refusal> {
        let malformed = || Refusal::malformed("a text of a static pod is not escaped");
        Self::new(&escape::unescape(word).ok_or_else(malformed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_with_spaces_is_one_word() {
        let text = PodText::new("echo 100%, \"ä\"\n").unwrap();
        assert_eq!(text.escaped(), "echo%20100%25%2c%20\"%c3%a4\"%0a");
        for wrong in ["%", "%4", "%zz", "%+1", "%ff", "%00"] {
            assert!(PodText::unescape(wrong).is_err(), "{wrong}");
        }
        assert!(PodText::new("a\0").is_err() && PodText::new(&"a".repeat(3073)).is_err());
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_it_was_written(text in "(?s).{0,40}") {
            if let Ok(text) = PodText::new(&text) {
                let word = text.escaped();
                prop_assert!(word.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','));
                prop_assert_eq!(PodText::unescape(&word), Ok(text));
            }
        }
    }
}
