//! Timeouts and retries.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How often a wait checks whether the user wants to stop.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Timeouts and numbers of tries.
#[derive(Clone, Debug)]
pub struct Retry {
    /// The timeout to establish a connection.
    pub connect_timeout: Duration,
    /// The timeout without progress on an open connection. After it a call is not tried again.
    pub idle_timeout: Duration,
    /// The timeout for the execution of an action, with its time in the server's queue.
    pub execution_timeout: Duration,
    /// The timeout for the execution of an action that only tries the server. A build waits for it,
    /// so it is shorter.
    pub trial_timeout: Duration,
    /// The age from which a stream of messages about an action is healthy. Load balancers end
    /// streams at a fixed age, so cuts of healthy ones do not count.
    pub healthy_after: Duration,
    /// How often a call is made before it counts as failed.
    pub tries: u32,
    /// The pause before the second try; it doubles with each further one.
    pub first_pause: Duration,
    /// Whether the user wants to stop. Every wait checks it several times a second.
    pub is_stopped: fn() -> bool,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            execution_timeout: Duration::from_secs(70 * 60),
            trial_timeout: Duration::from_secs(5 * 60),
            healthy_after: Duration::from_secs(10),
            tries: 4,
            first_pause: Duration::from_millis(250),
            is_stopped: || false,
        }
    }
}

impl Retry {
    /// The pause after this many failed tries. It is spread, for clients that failed at the same
    /// time.
    pub(crate) fn pause(&self, failed: u32) -> Duration {
        let doubled =
            self.first_pause.saturating_mul(2_u32.saturating_pow(failed.saturating_sub(1)));
        let chance = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
        doubled.mul_f64(0.5 + chance / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_never_below_half() {
        let retry = Retry::default();
        for (failed, whole) in [(1, 250), (2, 500), (3, 1000)] {
            let whole = Duration::from_millis(whole);
            assert!((whole / 2..=whole).contains(&retry.pause(failed)));
        }
    }
}
