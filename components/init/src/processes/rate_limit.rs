//! How many lines go to the console.

use std::collections::VecDeque;
use std::time::Duration;

/// How many lines are admitted at once.
const BURST: u32 = 5;
/// How long it takes until one more is admitted.
const REFILL: Duration = Duration::from_secs(10);
/// How long an error of the same source is held back, twice as long each time, and at most.
const FIRST_REPEAT: Duration = Duration::from_secs(10);
const MAX_REPEAT: Duration = Duration::from_secs(600);
/// How many sources are remembered.
const MAX_SOURCES: usize = 16;

/// Admits a few lines and counts the others.
#[derive(Default)]
pub struct RateLimit {
    used: u32,
    since: Duration,
    held_back: u32,
    /// Those that came lately, the latest last.
    sources: VecDeque<Source>,
}

/// A source of errors: a place in a program's code, and what the errors are about.
struct Source {
    name: String,
    /// How long it is held back after it was shown.
    interval: Duration,
    /// When it is shown again, since boot.
    due: Duration,
}

/// Whether a line is shown.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Show it.
    Show {
        /// How many lines were held back since the last one that was shown.
        held_back: u32,
    },
    /// Do not show it.
    Hold,
}

impl RateLimit {
    /// Like [`Self::admit`], for an error of this source: an API server that is away for an hour
    /// has the kubelet log the same error every ten seconds.
    pub fn admit_of(&mut self, source: &str, now: Duration) -> Admission {
        let is_it = |known: &Source| known.name == source;
        let known = self.sources.iter().position(is_it).and_then(|at| self.sources.remove(at));
        let mut known = known.filter(|known| now < known.due + MAX_REPEAT).unwrap_or_else(|| {
            Source { name: source.to_owned(), interval: FIRST_REPEAT / 2, due: now }
        });
        let admission = if now < known.due {
            self.held_back += 1;
            Admission::Hold
        } else {
            self.admit(now)
        };
        if admission != Admission::Hold {
            known.interval = (known.interval * 2).min(MAX_REPEAT);
            known.due = now + known.interval;
        }
        if self.sources.len() == MAX_SOURCES {
            self.sources.pop_front();
        }
        self.sources.push_back(known);
        admission
    }

    /// Decides about a line that was read `now`, since boot.
    pub fn admit(&mut self, now: Duration) -> Admission {
        let refilled = (now.saturating_sub(self.since).as_secs() / REFILL.as_secs()) as u32;
        if refilled > 0 {
            self.used = self.used.saturating_sub(refilled);
            self.since = now;
        }
        if self.used >= BURST {
            self.held_back += 1;
            return Admission::Hold;
        }
        self.used += 1;
        Admission::Show { held_back: std::mem::take(&mut self.held_back) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_burst_are_held_back_and_counted() {
        let mut limit = RateLimit::default();
        let shown = (0..100).filter(|_| limit.admit(Duration::ZERO) != Admission::Hold).count();
        assert_eq!(shown, 5);
        assert_eq!(limit.admit(Duration::from_secs(10)), Admission::Show { held_back: 95 });
        assert_eq!(limit.admit(Duration::from_secs(11)), Admission::Hold);
    }

    #[test]
    fn a_quiet_hour_saves_up_one_burst_only() {
        let mut limit = RateLimit::default();
        let hour = Duration::from_secs(3600);
        let shown = (0..100).filter(|_| limit.admit(hour) != Admission::Hold).count();
        assert_eq!(shown, 5);
    }

    #[test]
    fn an_error_that_is_logged_for_an_hour_is_shown_ever_less_often() {
        let mut limit = RateLimit::default();
        let mut shown = Vec::new();
        for second in (0..3600).step_by(10) {
            let admission =
                limit.admit_of("kubelet_node_status.go:474", Duration::from_secs(second));
            shown.extend((admission != Admission::Hold).then_some(second));
        }
        assert_eq!(shown, [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030]);
        let other = limit.admit_of("kubelet.go:1", Duration::from_secs(3600));
        assert_eq!(other, Admission::Show { held_back: 56 });
    }

    #[test]
    fn an_error_that_comes_back_after_a_while_is_shown_at_once() {
        let mut limit = RateLimit::default();
        let mut shows =
            |second| limit.admit_of("a", Duration::from_secs(second)) != Admission::Hold;
        assert_eq!([0, 5, 10, 15, 29, 30].map(&mut shows), [true, false, true, false, false, true]);
        assert_eq!([1000, 1005, 1010].map(&mut shows), [true, false, true]);
    }

    #[test]
    fn few_sources_are_remembered() {
        let mut limit = RateLimit::default();
        for number in 0..1000 {
            limit.admit_of(&number.to_string(), Duration::ZERO);
        }
        assert_eq!(limit.sources.len(), MAX_SOURCES);
    }
}
