//! A try: what requests change is taken back unless it is confirmed in time. The file on DATA stays
//! as it was, so a reboot takes a try back, too. It is pure.

use std::time::Duration;

use osbuild_protocol::{Refusal, RefusalCode, TryState, TryTime};

/// The try.
#[derive(Default)]
pub enum Try {
    /// There is none.
    #[default]
    None,
    /// It is running.
    Running {
        /// Until when, since boot.
        until: Duration,
        /// The settings of requests before it, as the text of the file on DATA.
        before: String,
    },
    /// Its time is over.
    Over,
}

impl Try {
    /// Begins one, or gives the one that is running this time from `now` on, since boot. `text` is
    /// that of the settings of requests.
    pub fn begin(
        &mut self,
        time: TryTime,
        text: impl FnOnce() -> String,
        now: Duration,
    ) -> Result<(), Refusal> {
        let before = match std::mem::take(self) {
            Self::None => text(),
            Self::Running { before, .. } => before,
            Self::Over => {
                *self = Self::Over;
                return Err(over());
            }
        };
        *self = Self::Running { until: now + time.duration(), before };
        Ok(())
    }

    /// Ends the try that is running, and returns the text of the settings before it.
    pub fn end(&mut self) -> Result<String, Refusal> {
        match std::mem::take(self) {
            Self::Running { before, .. } => Ok(before),
            Self::None => Err(Refusal::new(RefusalCode::NoTry, "no try is running")),
            Self::Over => {
                *self = Self::Over;
                Err(over())
            }
        }
    }

    /// Takes note that the client knows that the try is over. Returns whether it was.
    pub fn acknowledge(&mut self) -> bool {
        let is_over = matches!(self, Self::Over);
        if is_over {
            *self = Self::None;
        }
        is_over
    }

    /// Whether requests may change settings: a client that does not know that its try is over must
    /// not change them for good.
    pub fn admit(&self) -> Result<(), Refusal> {
        if matches!(self, Self::Over) { Err(over()) } else { Ok(()) }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether one is running.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    /// The text of the settings before it, while it is running.
    pub fn before(&self) -> Option<&str> {
        if let Self::Running { before, .. } = self { Some(before) } else { None }
    }

    /// When it is over, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        if let Self::Running { until, .. } = self { Some(*until) } else { None }
    }

    /// The text of the settings before it, if its time is over now.
    pub fn expire(&mut self, now: Duration) -> Option<String> {
        self.deadline().filter(|until| *until <= now)?;
        match std::mem::replace(self, Self::Over) {
            Self::Running { before, .. } => Some(before),
            _ => None,
        }
    }

    /// The text of the file before it, if it is running: what it has changed does harm, and its
    /// time is over.
    pub fn fail(&mut self) -> Option<String> {
        self.expire(Duration::MAX)
    }

    /// For clients.
    pub fn state(&self, now: Duration) -> TryState {
        match self {
            Self::None => TryState::None,
            Self::Running { until, .. } => {
                TryState::Running(until.saturating_sub(now).as_secs() as u32)
            }
            Self::Over => TryState::Over,
        }
    }
}

fn over() -> Refusal {
    Refusal::new(RefusalCode::NoTry, "the try is over, and its changes were taken back")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const SECOND: Duration = Duration::from_secs(1);

    fn running() -> Try {
        let mut tried = Try::default();
        tried.begin(TryTime::new(60).unwrap(), || "before".to_owned(), NOW).unwrap();
        tried
    }

    #[test]
    fn a_try_that_nobody_confirms_is_over_at_its_deadline() {
        let mut tried = running();
        assert_eq!(tried.state(NOW + 20 * SECOND), TryState::Running(40));
        assert_eq!(tried.expire(NOW + 59 * SECOND), None);
        assert_eq!(tried.expire(NOW + 60 * SECOND).as_deref(), Some("before"));
        assert_eq!((tried.state(NOW), tried.deadline()), (TryState::Over, None));
        assert!(tried.admit().is_err() && tried.end().is_err(), "the client does not know yet");
        assert!(tried.begin(TryTime::new(60).unwrap(), String::new, NOW).is_err());
        assert!(tried.acknowledge());
        assert!(tried.admit().is_ok());
    }

    #[test]
    fn a_try_that_does_harm_is_over_before_its_deadline() {
        let mut tried = running();
        assert_eq!(tried.fail().as_deref(), Some("before"));
        assert_eq!((tried.state(NOW), tried.fail()), (TryState::Over, None));
    }

    #[test]
    fn a_try_that_is_prolonged_still_goes_back_to_what_was_before_it() {
        let mut tried = running();
        tried.begin(TryTime::new(10).unwrap(), || "tried".to_owned(), NOW + SECOND).unwrap();
        assert_eq!(tried.deadline(), Some(NOW + 11 * SECOND));
        assert_eq!(tried.end().as_deref(), Ok("before"));
        assert!(!tried.is_running() && !tried.acknowledge());
        assert_eq!(tried.end().unwrap_err().code, RefusalCode::NoTry);
    }
}
