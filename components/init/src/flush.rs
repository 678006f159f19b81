//! How long a node that shuts down waits for its disk: as long as the disk makes progress, within a
//! bound.

use std::time::Duration;

/// How often to say that a disk is waited for.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// The longest wait for a disk, whatever progress it makes.
const MAX: Duration = Duration::from_secs(30 * 60);

/// A wait for a disk.
pub struct Wait {
    began: Duration,
    /// How long it may take nothing.
    stall: Duration,
    /// The fewest bytes that were left to write, and since when.
    least: u64,
    since: Duration,
    said: Duration,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait.
    Wait,
    /// Say this, and wait.
    Say(String),
    /// Go on without the disk, for this reason.
    GiveUp(String),
}

impl Wait {
    /// A wait that begins at `now`, with `left` bytes to write. It is given up when these have not
    /// become fewer for `stall`.
    pub fn new(now: Duration, left: u64, stall: Duration) -> Wait {
        Wait { began: now, stall, least: left, since: now, said: now }
    }

    /// What to do at `now`, with so many bytes left to write.
    pub fn next(&mut self, now: Duration, left: u64) -> Next {
        if left < self.least {
            (self.least, self.since) = (left, now);
        }
        let waited = now.saturating_sub(self.began);
        if now.saturating_sub(self.since) > self.stall {
            return Next::GiveUp(format!(
                "has taken nothing for {} s: {} KiB are lost",
                self.stall.as_secs(),
                left >> 10
            ));
        }
        if waited > MAX {
            return Next::GiveUp(format!(
                "is not done after {} s: {} KiB are lost",
                MAX.as_secs(),
                left >> 10
            ));
        }
        if now.saturating_sub(self.said) >= SAID_EVERY {
            self.said = now;
            return Next::Say(format!(
                "since {} s, {} KiB are left to write",
                waited.as_secs(),
                left >> 10
            ));
        }
        Next::Wait
    }
}

/// The bytes that wait to be written to any disk, by `/proc/meminfo`.
pub fn left(meminfo: &str) -> u64 {
    let kibibytes = |name| {
        meminfo.lines().find_map(|line| {
            line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        })
    };
    ["Dirty:", "Writeback:"].into_iter().filter_map(kibibytes).sum::<u64>() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(120);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(1000 + seconds)
    }

    #[test]
    fn a_slow_disk_that_makes_progress_is_waited_for_and_that_is_said() {
        let mut wait = Wait::new(at(0), 100 << 20, STALL);
        let mut said = 0;
        for second in 1..=900 {
            match wait.next(at(second), (100 << 20) - (second << 16)) {
                Next::GiveUp(why) => panic!("{why}"),
                Next::Say(_) => said += 1,
                Next::Wait => {}
            }
        }
        assert_eq!(said, 90);
    }

    #[test]
    fn a_dead_disk_is_given_up() {
        let mut wait = Wait::new(at(0), 5 << 20, STALL);
        assert!(matches!(wait.next(at(120), 5 << 20), Next::Say(_)));
        let why = "has taken nothing for 120 s: 5120 KiB are lost".to_owned();
        assert_eq!(wait.next(at(121), 5 << 20), Next::GiveUp(why));
        // More to write is no progress.
        let mut wait = Wait::new(at(0), 5 << 20, STALL);
        assert!(
            (1..=121)
                .any(|second| matches!(wait.next(at(second), (5 << 20) + second), Next::GiveUp(_)))
        );
    }

    #[test]
    fn no_disk_holds_the_machine_for_ever() {
        let mut wait = Wait::new(at(0), u64::MAX, STALL);
        assert!(
            (1..2000)
                .any(|second| matches!(wait.next(at(second), u64::MAX - second), Next::GiveUp(_)))
        );
    }

    #[test]
    fn what_is_dirty_and_what_is_under_way_are_left() {
        assert_eq!(
            left("MemFree: 1 kB\nDirty:      20 kB\nWriteback:    3 kB\nWritebackTmp: 9 kB\n"),
            23 << 10
        );
        assert_eq!(left(""), 0);
    }
}
