//! When the consoles show the summary: at each change of what is wrong or of the message above it,
//! and from time to time, as lines of others push it up and a person may connect a screen at any
//! time.

use std::time::Duration;

use super::{Kind, Problem};

/// How often the node is looked at.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long a node that is not ready may boot before its first summary.
const BOOT: Duration = Duration::from_secs(60);
/// After this time the summary is shown again while something is wrong.
const SICK: Duration = Duration::from_secs(60);
/// And while nothing is.
const HEALTHY: Duration = Duration::from_secs(600);

/// When to look next, and what was shown last.
#[derive(Debug, Default)]
pub struct Pace {
    /// `None` before the first look.
    next: Option<Duration>,
    shown: Option<(Duration, Vec<String>, Vec<Kind>)>,
}

impl Pace {
    /// When to look next, since boot.
    pub fn deadline(&self) -> Duration {
        self.next.unwrap_or(BOOT)
    }

    /// The node is ready: the first look is due soon.
    pub fn on_ready(&mut self, now: Duration) {
        self.next = Some(self.next.unwrap_or(now + INTERVAL).min(now + INTERVAL));
    }

    /// Whether the summary is shown now, with this message and these problems. A change of numbers
    /// in their texts is none.
    pub fn shows(&mut self, motd: &[String], problems: &[Problem], now: Duration) -> bool {
        self.next = Some(now + INTERVAL);
        let kinds: Vec<Kind> = problems.iter().map(|problem| problem.kind).collect();
        let is_due = self.shown.as_ref().is_none_or(|(last, message, shown)| {
            let rest = if kinds.is_empty() { HEALTHY } else { SICK };
            message != motd || *shown != kinds || now >= *last + rest
        });
        if is_due {
            self.shown = Some((now, motd.to_vec(), kinds));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn problem(kind: Kind, text: &str) -> Problem {
        Problem { kind, text: text.to_owned() }
    }

    #[test]
    fn it_is_shown_when_something_changes_and_from_time_to_time() {
        let mut pace = Pace::default();
        assert!(pace.shows(&[], &[], at(20)));
        assert!(!pace.shows(&[], &[], at(30)));
        assert!(pace.shows(&[], &[problem(Kind::Gateway, "a")], at(40)));
        assert!(!pace.shows(&[], &[problem(Kind::Gateway, "b")], at(50)));
        assert!(pace.shows(&[], &[problem(Kind::Gateway, "b")], at(100)));
        assert!(pace.shows(&[], &[], at(110)));
        assert!(!pace.shows(&[], &[], at(700)));
        assert!(pace.shows(&[], &[], at(710)));
        assert!(pace.shows(&["hello".to_owned()], &[], at(720)), "a message is new");
        assert!(!pace.shows(&["hello".to_owned()], &[], at(730)));
    }

    #[test]
    fn the_first_look_is_after_ready_or_a_long_boot() {
        let mut pace = Pace::default();
        assert_eq!(pace.deadline(), BOOT);
        pace.on_ready(at(12));
        assert_eq!(pace.deadline(), at(22));
        pace.shows(&[], &[], at(22));
        assert_eq!(pace.deadline(), at(32));
        pace.on_ready(at(30));
        assert_eq!(pace.deadline(), at(32));
    }
}
