//! How often a plugin may call.

use super::limits::{CALL_BURST, CALL_INTERVAL};
use std::time::Instant;

/// Admits calls at an average rate, and some at once after a pause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// When the calls so far are over, at the average rate.
    due: Option<Instant>,
}

impl Pace {
    /// Whether a call may be made now. One that may not does not count.
    pub fn admit(&mut self, now: Instant) -> bool {
        let due = self.due.map_or(now, |due| due.max(now));
        let is_admitted = due.duration_since(now) < CALL_BURST;
        if is_admitted {
            self.due = Some(due + CALL_INTERVAL);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_thousand_calls_come_at_once_and_then_one_each_five_milliseconds() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let mut admitted = |after: Duration| {
            std::iter::repeat_with(|| pace.admit(now + after)).take_while(|admit| *admit).count()
        };
        assert_eq!(admitted(Duration::ZERO), 1000);
        assert_eq!(admitted(Duration::from_millis(50)), 10);
        assert_eq!(admitted(Duration::from_secs(60)), 1000);
    }
}
