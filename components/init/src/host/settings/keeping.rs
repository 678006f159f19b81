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
    /// One has, and the next has begun.
    Again,
}

impl Keeping {
    /// The settings were written, or not. Returns whether that is new.
    pub fn on_written(&mut self, is_written: bool, now: Duration) -> bool {
        let next = if is_written { Self::Kept } else { Self::Failed(now + RETRY) };
        let before = std::mem::replace(self, next);
        (before == Self::Kept) != is_written
    }

    /// The settings are written again.
    pub fn begin(&mut self) {
        *self = Self::Again;
    }

    /// When to write them again, since boot.
    pub fn deadline(self) -> Option<Duration> {
        if let Self::Failed(due) = self { Some(due) } else { None }
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
}
