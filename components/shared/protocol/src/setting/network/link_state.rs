//! Whether links are on.

use std::fmt;

use crate::Refusal;

/// Whether a link is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is on, also when another program switches it off.
    Up,
    /// It is off: no packet passes.
    Down,
}

impl LinkState {
    /// Reads `up` or `down`.
    ///
    /// # Errors
    /// It is another word.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        match word {
            "up" => Ok(Self::Up),
            "down" => Ok(Self::Down),
            _ => Err(Refusal::malformed("the state of a link is `up` or `down`")),
        }
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}
