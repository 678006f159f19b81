//! When to compare the host with settings: soon after a change, and not for each of many. It is
//! pure. Times are those since boot.

use std::time::Duration;

/// The wait from a change to the comparison. Changes often come in pairs.
const DELAY: Duration = Duration::from_millis(10);
/// The least time between two comparisons because of changes: a node that starts pods has many.
const PAUSE: Duration = Duration::from_millis(100);
/// The least time from a comparison to the next because of changes while one is set for later: what
/// is tried in vain can report changes itself.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// When the next comparison is due, and when the last one began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    due: Option<Duration>,
    last: Option<Duration>,
}

impl Pace {
    /// The host has changed. A comparison that is set for later comes sooner.
    pub fn on_change(&mut self, now: Duration) {
        let pause = if self.due.is_some() { RETRY_PAUSE } else { PAUSE };
        let earliest = self.last.map_or(Duration::ZERO, |last| last + pause);
        let due = earliest.max(now + DELAY);
        self.due = Some(self.due.map_or(due, |set| set.min(due)));
    }

    /// A comparison is due at this time, without a change.
    pub fn set(&mut self, due: Duration) {
        self.due = Some(due);
    }

    /// A comparison begins.
    pub fn begin(&mut self, now: Duration) {
        *self = Self { due: None, last: Some(now) };
    }

    /// When the next one is due.
    pub fn due(self) -> Option<Duration> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_is_followed_at_once_and_many_are_together() {
        let at = |millis| Duration::from_millis(millis);
        let mut pace = Pace::default();
        pace.on_change(at(1000));
        pace.on_change(at(1005));
        assert_eq!(pace.due(), Some(at(1010)));
        pace.begin(at(1010));
        assert_eq!(pace.due(), None);
        pace.on_change(at(1020));
        assert_eq!(pace.due(), Some(at(1110)));
        pace.begin(at(1110));
        pace.on_change(at(2000));
        assert_eq!(pace.due(), Some(at(2010)));
    }

    #[test]
    fn a_change_is_followed_within_a_second_while_a_retry_is_due() {
        let at = |millis| Duration::from_millis(millis);
        let mut pace = Pace::default();
        pace.begin(at(1000));
        pace.set(at(6000));
        pace.on_change(at(1500));
        assert_eq!(pace.due(), Some(at(2000)));
        pace.begin(at(2000));
        pace.set(at(7000));
        pace.on_change(at(6995));
        assert_eq!(pace.due(), Some(at(7000)), "a retry is never put off");
        pace.begin(at(7000));
        pace.on_change(at(7020));
        pace.on_change(at(7030));
        assert_eq!(pace.due(), Some(at(7100)));
    }
}
