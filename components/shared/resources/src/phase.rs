//! Phases of a resource.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// Whether a resource is in use or on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Controllers act on it.
    Running,
    /// Controllers undo what they did for it, and remove their finalizers.
    TearingDown,
}

impl Phase {
    /// The phase's name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Running => "running",
            Phase::TearingDown => "tearingDown",
        }
    }
}

impl FromStr for Phase {
    type Err = UnknownPhase;

    fn from_str(text: &str) -> Result<Phase, UnknownPhase> {
        [Phase::Running, Phase::TearingDown]
            .into_iter()
            .find(|phase| phase.name() == text)
            .ok_or_else(|| UnknownPhase(text.to_owned()))
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is no phase.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownPhase(String);

impl fmt::Display for UnknownPhase {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "`{}` is no phase: the phases are `running` and `tearingDown`", self.0)
    }
}

impl Error for UnknownPhase {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_phases_of_cosi_are_read() {
        assert_eq!("running".parse(), Ok(Phase::Running));
        assert_eq!("tearingDown".parse(), Ok(Phase::TearingDown));
        for text in ["", "Running", "tearing-down"] {
            assert_eq!(text.parse::<Phase>(), Err(UnknownPhase(text.into())));
        }
    }
}
