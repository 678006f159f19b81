//! Timeouts and retries.

use std::fmt;
use std::time::{Duration, Instant};

/// How often a wait checks whether the user wants to stop.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Timeouts and numbers of tries.
#[derive(Clone, Debug)]
pub struct Retry {
    /// The timeout to establish a connection.
    pub connect_timeout: Duration,
    /// The timeout without progress on an open connection: no byte of the request sent and none of
    /// the response received.
    pub idle_timeout: Duration,
    /// How often a call is made before it counts as failed.
    pub tries: u32,
    /// The pause before the second try; it doubles with each further one.
    pub first_pause: Duration,
    /// The upper limit of that pause.
    pub max_pause: Duration,
    /// The upper limit of the pause between two polls of something that takes minutes. The first
    /// polls come sooner.
    pub max_poll_pause: Duration,
    /// The timeout until a change is visible in every part of AWS, also if its response was lost.
    pub settle_timeout: Duration,
    /// The timeout of an operation of AWS that takes minutes.
    pub operation_timeout: Duration,
    /// Whether the user wants to stop. Every wait checks it several times a second.
    pub is_stopped: fn() -> bool,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            tries: 9,
            first_pause: Duration::from_millis(250),
            max_pause: Duration::from_secs(20),
            max_poll_pause: Duration::from_secs(5),
            settle_timeout: Duration::from_secs(5 * 60),
            operation_timeout: Duration::from_secs(60 * 60),
            is_stopped: || false,
        }
    }
}

/// The user wants to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

impl Retry {
    /// The pause after this many failed tries. `chance`, from 0 to 1, spreads callers that failed
    /// at the same time.
    pub(crate) fn pause(&self, failed: u32, chance: f64) -> Duration {
        let doubled =
            self.first_pause.saturating_mul(2_u32.saturating_pow(failed.saturating_sub(1)));
        doubled.min(self.max_pause).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    /// Sleeps, and returns early with an error when the user wants to stop.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Stopped> {
        let end = Instant::now() + time;
        loop {
            if (self.is_stopped)() {
                return Err(Stopped);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    /// Polls until there is a result, for at most [`Retry::operation_timeout`]; `None` after it.
    ///
    /// # Errors
    /// `poll` fails, or the user wants to stop.
    pub fn until<T, E: From<Stopped>>(
        &self,
        poll: impl FnMut() -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        self.within(self.operation_timeout, poll)
    }

    /// Polls until there is a result, for at most [`Retry::settle_timeout`]; `None` after it.
    ///
    /// # Errors
    /// `poll` fails, or the user wants to stop.
    pub fn until_settled<T, E: From<Stopped>>(
        &self,
        poll: impl FnMut() -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        self.within(self.settle_timeout, poll)
    }

    fn within<T, E: From<Stopped>>(
        &self,
        timeout: Duration,
        mut poll: impl FnMut() -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        let end = Instant::now() + timeout;
        let mut pause = self.first_pause;
        loop {
            if let Some(found) = poll()? {
                return Ok(Some(found));
            }
            if Instant::now() > end {
                return Ok(None);
            }
            self.sleep(pause.min(self.max_poll_pause))?;
            pause = pause.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_are_never_below_half() {
        let retry = Retry::default();
        let longest = (1..12).map(|failed| retry.pause(failed, 1.0)).collect::<Vec<_>>();
        assert_eq!(longest[..3], [250, 500, 1000].map(Duration::from_millis));
        assert_eq!(longest[10], retry.max_pause);
        assert_eq!(retry.pause(2, 0.0), Duration::from_millis(250));
    }

    #[test]
    fn a_poll_ends_when_the_user_wants_to_stop() {
        let retry = Retry { is_stopped: || true, ..Retry::default() };
        assert_eq!(retry.until(|| Ok::<Option<()>, Stopped>(None)), Err(Stopped));
    }
}
