//! Whether the settings on DATA are those in effect. A disk that is full or slow may not take them;
//! the client knows, but may not ask again. It is pure.

use std::time::Duration;

/// The pause before the settings are written again.
pub const RETRY: Duration = Duration::from_secs(10);

/// Whether a write of the settings has failed since the last one that did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// None has.
    #[default]
    Kept,
    /// One has, and the next is due at this time since boot.
    Failed(Duration),
    /// The disk has too much to do to begin one, which is due at this time since boot. A write that
    /// began before has older settings.
    Refused(Duration),
    /// One has failed, and the next has begun.
    Again,
}

impl Keeping {
    /// The settings were written, or not. Returns whether that is new.
    pub fn on_written(&mut self, is_written: bool, now: Duration) -> bool {
        if matches!(self, Self::Refused(_)) {
            return false;
        }
        let next = if is_written { Self::Kept } else { Self::Failed(now + RETRY) };
        let before = std::mem::replace(self, next);
        (before == Self::Kept) != is_written
    }

    /// A write cannot begin.
    pub fn on_refused(&mut self, now: Duration) {
        *self = Self::Refused(now + RETRY);
    }

    /// A write of the newest settings has begun, which ends the wait for one.
    pub fn on_begun(&mut self) {
        if matches!(self, Self::Refused(_)) {
            self.begin();
        }
    }

    /// The settings are written again.
    pub fn begin(&mut self) {
        *self = Self::Again;
    }

    /// When to write them again, since boot.
    pub fn deadline(self) -> Option<Duration> {
        match self {
            Self::Failed(due) | Self::Refused(due) => Some(due),
            Self::Kept | Self::Again => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_were_not_written_are_written_again_until_they_are() {
        let now = Duration::from_secs(100);
        let mut keeping = Keeping::default();
        assert!(!keeping.on_written(true, now));
        assert!(keeping.on_written(false, now));
        assert_eq!(keeping.deadline(), Some(now + RETRY));
        keeping.begin();
        assert_eq!(keeping.deadline(), None, "one write at a time");
        assert!(!keeping.on_written(false, now + RETRY), "that is known");
        assert_eq!(keeping.deadline(), Some(now + 2 * RETRY));
        assert!(keeping.on_written(true, now + 2 * RETRY));
        assert_eq!(keeping.deadline(), None);
    }

    #[test]
    fn an_older_write_does_not_end_the_retry_of_one_that_could_not_begin() {
        let now = Duration::from_secs(100);
        let mut keeping = Keeping::default();
        keeping.on_refused(now);
        assert!(!keeping.on_written(true, now), "its settings are older");
        assert_eq!(keeping.deadline(), Some(now + RETRY));
        keeping.on_begun();
        assert!(keeping.on_written(true, now + RETRY));
        assert_eq!(keeping, Keeping::Kept);
        keeping.on_begun();
        assert_eq!(keeping, Keeping::Kept);
    }
}
