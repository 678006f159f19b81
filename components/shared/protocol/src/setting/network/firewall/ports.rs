//! Ports in rules.

use std::fmt;

use super::super::options::number;
use crate::Refusal;

/// A port, or all from the first one to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Reads `PORT` or `FIRST-LAST`.
    ///
    /// # Errors
    /// It is no range of ports.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (number::<u16>(first), number::<u16>(last)) {
            (Some(first), Some(last)) if 0 < first && first <= last => Ok(Self { first, last }),
            _ => Err(Refusal::malformed(format!("`{word}` is not `PORT` or `FIRST-LAST`"))),
        }
    }

    /// The first one.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The last one.
    pub fn last(self) -> u16 {
        self.last
    }

    /// Whether a port is in both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}
