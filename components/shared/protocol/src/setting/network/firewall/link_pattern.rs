//! Names of links in rules.

use std::fmt;

use super::super::LinkName;
use crate::Refusal;

/// The name of a link; or, with a `*` behind it, what the names of several begin with. No link of
/// the name needs to exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkPattern(String);

impl LinkPattern {
    /// Reads a name or the start of names.
    ///
    /// # Errors
    /// No link has such a name, or it is that of the loopback.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        LinkName::parse(word.strip_suffix('*').unwrap_or(word)).map(|_| Self(word.to_owned()))
    }

    /// The name, or the start of names.
    pub fn name(&self) -> &str {
        self.0.strip_suffix('*').unwrap_or(&self.0)
    }

    /// Whether it stands for all links whose names begin so.
    pub fn is_start(&self) -> bool {
        self.0.ends_with('*')
    }

    /// Whether the link of a name matches.
    pub fn matches(&self, name: &str) -> bool {
        match self.is_start() {
            true => name.starts_with(self.name()),
            false => name == self.name(),
        }
    }

    /// Whether a link can match both.
    pub(in super::super) fn overlaps(&self, other: &Self) -> bool {
        self.matches(other.name()) || other.matches(self.name())
    }
}

impl fmt::Display for LinkPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
