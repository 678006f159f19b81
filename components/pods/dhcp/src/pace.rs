//! When to compare the host with settings: soon after a change, and not for each of many. It is
//! pure. Times are those since boot.

use std::time::Duration;

/// The wait from a change to the comparison. Changes often come in pairs.
const DELAY: Duration = Duration::from_millis(10);
/// The least time between two comparisons because of changes: a node that starts pods has many.
const PAUSE: Duration = Duration::from_millis(100);

/// When the next comparison is due, and when the last one began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    due: Option<Duration>,
    last: Option<Duration>,
}

impl Pace {
    /// The host has changed.
    pub fn on_change(&mut self, now: Duration) {
        let earliest = self.last.map_or(Duration::ZERO, |last| last + PAUSE);
        self.due.get_or_insert(earliest.max(now + DELAY));
    }

    /// A comparison is to begin at this time, and no other before it.
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
}
