//! Names of links.

use std::fmt;

use crate::Refusal;

/// The maximum bytes of a name (`IFNAMSIZ` without the final zero).
const MAX_LENGTH: usize = 15;

/// A link's name as the kernel takes it, here of fewer characters. It is neither the loopback,
/// which is the kernel's own, nor `all` or `default`, which stand for more than one link in the
/// kernel's settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkName(String);

impl LinkName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not the name of one link, or that of the loopback.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = (1..=MAX_LENGTH).contains(&word.len())
            && word.bytes().all(known)
            && !matches!(word, "." | ".." | "all" | "default" | "lo");
        match is_name {
            true => Ok(Self(word.to_owned())),
            false => Err(Refusal::malformed(format!("`{word}` is not the name of a link"))),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
