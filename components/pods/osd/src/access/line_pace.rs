//! How often the record has lines about one thing, so that they do not push out those about others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A line is worth this time, and so much of it may be used in advance: 60 lines at once, and then
/// one a second.
const INTERVAL: Duration = Duration::from_secs(1);
const BURST: Duration = Duration::from_secs(60);

/// The paces of the lines about each thing that was in the record lately.
#[derive(Debug, Default)]
pub struct LinePaces(BTreeMap<String, LinePace>);

#[derive(Debug)]
struct LinePace {
    /// When the lines so far are over, at the average rate.
    due: Instant,
    /// Those that were left out since the last one.
    left_out: u64,
}

impl LinePaces {
    /// No lines yet.
    pub const fn new() -> LinePaces {
        LinePaces(BTreeMap::new())
    }

    /// Returns what to write now for a line about this: the line, unless there were too many, and
    /// how many lines about it or others were left out before.
    pub fn admit(&mut self, about: &str, line: String, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        self.0.retain(|about, pace| {
            let is_over = pace.due <= now;
            if is_over {
                lines.extend(pace.take_left_out(about));
            }
            !is_over
        });
        let pace = self.0.entry(about.to_owned());
        let pace = pace.or_insert(LinePace { due: now, left_out: 0 });
        if (pace.due + INTERVAL).duration_since(now) > BURST {
            pace.left_out += 1;
            return lines;
        }
        pace.due += INTERVAL;
        lines.extend(pace.take_left_out(about));
        lines.push(line);
        lines
    }
}

impl LinePace {
    fn take_left_out(&mut self, about: &str) -> Option<String> {
        match std::mem::take(&mut self.left_out) {
            0 => None,
            count => Some(format!("record: {count} lines are left out: {about}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_lines_come_at_once_and_then_one_a_second_with_the_number_of_those_between() {
        let (mut paces, begin) = (LinePaces::new(), Instant::now());
        let mut admit = |about: &str, after| {
            let now = begin + Duration::from_millis(after);
            paces.admit(about, format!("line of {about}"), now)
        };
        let written = (0..100).filter(|_| !admit("a", 0).is_empty()).count();
        assert_eq!(written, 60);
        assert_eq!(admit("b", 0), ["line of b"], "each has a pace of its own");
        assert_eq!(admit("a", 1_001), ["record: 40 lines are left out: a", "line of a"]);
        assert!(admit("a", 1_002).is_empty());
        let late = admit("b", 100_000);
        assert_eq!(late, ["record: 1 lines are left out: a", "line of b"]);
        assert_eq!(paces.0.len(), 1, "one that is over leaves nothing");
    }
}
