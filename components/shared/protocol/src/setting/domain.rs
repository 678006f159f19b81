//! Domains of a search list.

use std::fmt;

use super::list::Entry;
use crate::Refusal;

/// The maximum bytes of a domain, and of a label of it (RFC 1035).
const MAX_LENGTH: usize = 253;
const MAX_LABEL: usize = 63;

/// A domain. Unlike a host name it may have an underscore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain(String);

impl Domain {
    /// The domain.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Entry for Domain {
    const PLURAL: &'static str = "search domains";

    fn parse(word: &str) -> Result<Self, Refusal> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label =
            |label: &str| (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(known);
        match word.len() <= MAX_LENGTH && word.split('.').all(is_label) {
            true => Ok(Self(word.to_owned())),
            false => Err(Refusal::malformed(format!("`{word}` is not a domain name"))),
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
