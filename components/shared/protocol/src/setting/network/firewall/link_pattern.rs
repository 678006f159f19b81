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

    /// Whether a link can match both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let covers = |one: &Self, name: &str| match one.is_start() {
            true => name.starts_with(one.name()),
            false => name == one.name(),
        };
        covers(self, other.name()) || covers(other, self.name())
    }
}

impl fmt::Display for LinkPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
