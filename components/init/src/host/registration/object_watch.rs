//! When a child watches the node's object. It is pure: ends of the child in, deadlines out.

use std::time::Duration;

/// How long after one child the next begins, and how long if the API server refused the watch or
/// somebody changes labels again and again.
const PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(60);
/// A change so soon after another one is one of many.
const SOON: Duration = Duration::from_secs(10);

/// How a child has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has seen other labels or taints.
    Changed,
    /// Its time was over.
    Over,
    /// It could not watch.
    Failed,
}

/// The watch.
#[derive(Debug, Default)]
pub struct ObjectWatch {
    is_running: bool,
    /// When the next child begins, since boot.
    next: Duration,
    /// When a child saw a change last, since boot.
    changed: Option<Duration>,
}

impl ObjectWatch {
    /// When the next child begins, since boot; none while one runs.
    pub fn deadline(&self) -> Option<Duration> {
        (!self.is_running).then_some(self.next)
    }

    /// A child begins.
    pub fn on_start(&mut self) {
        self.is_running = true;
    }

    /// It has ended. `now` is the time since boot.
    pub fn on_end(&mut self, end: End, now: Duration) {
        self.is_running = false;
        let is_one_of_many = self.changed.is_some_and(|last| now.saturating_sub(last) < SOON);
        let pause = match end {
            End::Over => PAUSE,
            End::Changed if !is_one_of_many => PAUSE,
            End::Changed | End::Failed => LONG_PAUSE,
        };
        self.next = now + pause;
        if end == End::Changed {
            self.changed = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_next_child_begins_soon_after_one_but_not_against_a_rival() {
        let mut watch = ObjectWatch::default();
        assert_eq!(watch.deadline(), Some(at(0)));
        let mut next = |end, seconds| {
            watch.on_start();
            assert_eq!(watch.deadline(), None);
            watch.on_end(end, at(seconds));
            watch.deadline()
        };
        assert_eq!(next(End::Over, 300), Some(at(301)));
        assert_eq!(next(End::Changed, 400), Some(at(401)));
        assert_eq!(next(End::Changed, 410), Some(at(411)));
        assert_eq!(next(End::Changed, 413), Some(at(473)));
        assert_eq!(next(End::Changed, 500), Some(at(501)));
        assert_eq!(next(End::Failed, 501), Some(at(561)));
    }
}
