//! How long to wait for AWS, and how often to try.

use crate::engine::stop;
use crate::error::Result;
use std::time::{Duration, Instant};

/// Times and numbers of tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the next sign of life of whoever is connected: an answer's beginning, or room for more
    /// bytes.
    pub silence: Duration,
    /// How often a call is made before it counts as failed.
    pub tries: u32,
    /// Before the second try; it doubles with each further one.
    pub first_pause: Duration,
    /// No pause is longer.
    pub longest_pause: Duration,
    /// Between two looks at something that takes minutes: the longest time, as the first looks come
    /// sooner.
    pub look: Duration,
    /// For something that ought to be known everywhere, or to have ended, if a call that nobody
    /// heard the answer of was done.
    pub settle: Duration,
    /// For something that takes minutes.
    pub end: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            tries: 9,
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(20),
            look: Duration::from_secs(5),
            settle: Duration::from_secs(5 * 60),
            end: Duration::from_secs(60 * 60),
        }
    }
}

impl Patience {
    /// How long to wait after so many failed tries. `chance` is between 0 and 1: callers that
    /// failed together do not come back together.
    pub fn pause(&self, failed: u32, chance: f64) -> Duration {
        let doubled =
            self.first_pause.saturating_mul(2_u32.saturating_pow(failed.saturating_sub(1)));
        doubled.min(self.longest_pause).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

/// Sleeps, and wakes early when the user wants to stop.
pub(super) fn sleep(time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    loop {
        stop::check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

impl Patience {
    /// Asks again and again, until there is something or the time is over, which gives nothing.
    ///
    /// # Errors
    /// Asking fails, or the user wants to stop.
    pub fn until<T>(&self, ask: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
        self.within(self.end, ask)
    }

    /// The same within the time in which what was done unheard shows.
    ///
    /// # Errors
    /// Asking fails, or the user wants to stop.
    pub fn settled<T>(&self, ask: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
        self.within(self.settle, ask)
    }

    fn within<T>(
        &self,
        time: Duration,
        mut ask: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let end = Instant::now() + time;
        let mut pause = self.first_pause;
        loop {
            if let Some(found) = ask()? {
                return Ok(Some(found));
            }
            if Instant::now() > end {
                return Ok(None);
            }
            sleep(pause.min(self.look))?;
            pause = pause.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_never_shorter_than_half() {
        let patience = Patience::default();
        let longest = (1..12).map(|failed| patience.pause(failed, 1.0)).collect::<Vec<_>>();
        assert_eq!(longest[..3], [250, 500, 1000].map(Duration::from_millis));
        assert_eq!(longest[10], patience.longest_pause);
        assert_eq!(patience.pause(2, 0.0), Duration::from_millis(250));
    }
}
