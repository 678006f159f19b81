//! Texts of a pod, such as an argument, which may have any characters. In a line they are words.

use std::fmt::Write;

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

    /// The text as a part of a word: `%`, `,` and all that is not visible ASCII become `%` and two
    /// hexadecimal digits for each byte.
    pub(super) fn escaped(&self) -> String {
        let mut word = String::new();
        for byte in self.0.bytes() {
            match byte.is_ascii_graphic() && byte != b'%' && byte != b',' {
                true => word.push(char::from(byte)),
                false => write!(word, "%{byte:02x}").expect("a string takes all"),
            }
        }
        word
    }

    /// Reads what [`Self::escaped`] writes.
    pub(super) fn unescape(word: &str) -> Result<Self, Refusal> {
        let malformed = || Refusal::malformed("a text of a static pod is not escaped");
        let (mut bytes, mut rest) = (Vec::new(), word.as_bytes());
        while let [first, after @ ..] = rest {
            rest = after;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let [high, low, after @ ..] = rest else { return Err(malformed()) };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                return Err(malformed());
            };
            bytes.push(u8::try_from(high * 16 + low).map_err(|_| malformed())?);
            rest = after;
        }
        Self::new(&String::from_utf8(bytes).map_err(|_| malformed())?)
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
