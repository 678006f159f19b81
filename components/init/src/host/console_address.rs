//! The address that a person at a console gives the node, so that it can be reached and mended over
//! the network. It outranks every other source, and is not kept: a boot is without it. It is pure.

use std::time::Duration;

/// How long it lasts, unless the person keeps it.
pub const TRY_TIME: Duration = Duration::from_secs(10 * 60);

/// How long the address lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsoleAddress {
    /// The person has given none.
    #[default]
    None,
    /// Until this time since boot.
    Tried(Duration),
    /// Until the next boot.
    Kept,
}

impl ConsoleAddress {
    /// The person has given one.
    pub fn begin(&mut self, now: Duration) {
        *self = Self::Tried(now + TRY_TIME);
    }

    /// The person keeps it. Returns whether there is one.
    pub fn keep(&mut self) -> bool {
        let is_there = *self != Self::None;
        if is_there {
            *self = Self::Kept;
        }
        is_there
    }

    /// It goes. Returns whether there was one.
    pub fn end(&mut self) -> bool {
        std::mem::take(self) != Self::None
    }

    /// When it goes by itself, since boot.
    pub fn deadline(self) -> Option<Duration> {
        if let Self::Tried(until) = self { Some(until) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_for_ten_minutes_unless_it_is_kept() {
        let now = Duration::from_secs(100);
        let mut address = ConsoleAddress::default();
        assert!(!address.keep() && !address.end());
        address.begin(now);
        assert_eq!(address.deadline(), Some(now + TRY_TIME));
        assert!(address.keep());
        assert_eq!(address.deadline(), None);
        assert!(address.end());
        assert_eq!(address, ConsoleAddress::None);
    }
}
