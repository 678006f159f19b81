//! Tries: changes of settings that are taken back unless somebody confirms them in time.

use std::time::Duration;

use crate::Refusal;

/// The maximum seconds of a try.
const MAX_SECONDS: u32 = 3600;

/// How long a try lasts: a second at least, an hour at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TryTime(u32);

impl TryTime {
    /// This number of seconds.
    ///
    /// # Errors
    /// It is 0, or more than an hour.
    pub fn new(seconds: u32) -> Result<Self, Refusal> {
        match (1..=MAX_SECONDS).contains(&seconds) {
            true => Ok(Self(seconds)),
            false => Err(Refusal::malformed(format!("a try lasts 1 to {MAX_SECONDS} seconds"))),
        }
    }

    /// The seconds.
    pub fn seconds(self) -> u32 {
        self.0
    }

    /// The same as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }
}

/// Whether changes are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TryState {
    /// They are not: each is kept at once.
    #[default]
    None,
    /// They are, and are taken back after this number of seconds.
    Running(u32),
    /// They were taken back. Further ones are refused until the client reverts, as it may not know.
    Over,
}

const NONE: &str = "none";
const OVER: &str = "over";

impl TryState {
    /// The value of its line.
    pub(crate) fn encode(self) -> String {
        match self {
            Self::None => NONE.to_owned(),
            Self::Running(seconds) => seconds.to_string(),
            Self::Over => OVER.to_owned(),
        }
    }

    /// Reads the value of its line.
    pub(crate) fn decode(value: &str) -> Result<Self, String> {
        match value {
            NONE => Ok(Self::None),
            OVER => Ok(Self::Over),
            seconds => {
                let seconds = seconds.parse();
                seconds.map(Self::Running).map_err(|_| format!("`{value}` is no state of a try"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for state in [TryState::None, TryState::Running(0), TryState::Running(59), TryState::Over] {
            assert_eq!(TryState::decode(&state.encode()), Ok(state));
        }
        assert!(TryState::decode("soon").is_err());
    }

    #[test]
    fn a_try_ends() {
        for seconds in [0, MAX_SECONDS + 1] {
            assert!(TryTime::new(seconds).is_err(), "{seconds}");
        }
        assert_eq!(TryTime::new(60).unwrap().duration(), Duration::from_secs(60));
    }
}
