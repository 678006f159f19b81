//! How long a shutdown waits for a disk: as long as the disk makes progress, up to a maximum.

use std::time::Duration;

/// How often to report that a disk is waited for.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The longest wait for a disk, even if it makes progress.
const MAX_WAIT: Duration = Duration::from_secs(30 * 60);

/// A wait for a disk.
pub struct DiskWait {
    began: Duration,
    /// How long the disk may make no progress.
    stall: Duration,
    /// The fewest bytes that were left to write, and since when.
    least: u64,
    since: Duration,
    reported: Duration,
}

/// The next step of the wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait.
    Wait,
    /// Report this, and wait.
    Report(String),
    /// Go on without the disk, for this reason.
    GiveUp(String),
}

impl DiskWait {
    /// A wait that begins at `now`, since boot, with `left` bytes to write. It is given up when
    /// `left` has not decreased for `stall`.
    pub fn new(now: Duration, left: u64, stall: Duration) -> DiskWait {
        DiskWait { began: now, stall, least: left, since: now, reported: now }
    }

    /// Returns the next step at `now`, since boot, with `left` bytes to write.
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
        if waited > MAX_WAIT {
            return Next::GiveUp(format!(
                "is not done after {} s: {} KiB are lost",
                MAX_WAIT.as_secs(),
                left >> 10
            ));
        }
        if now.saturating_sub(self.reported) >= REPORT_INTERVAL {
            self.reported = now;
            return Next::Report(format!(
                "since {} s, {} KiB are left to write",
                waited.as_secs(),
                left >> 10
            ));
        }
        Next::Wait
    }
}

/// The bytes that wait to be written to any disk, according to `/proc/meminfo` (proc(5)).
pub fn unwritten(meminfo: &str) -> u64 {
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
    fn a_slow_disk_that_makes_progress_is_waited_for_and_reported() {
        let mut wait = DiskWait::new(at(0), 100 << 20, STALL);
        let mut reports = 0;
        for second in 1..=900 {
            match wait.next(at(second), (100 << 20) - (second << 16)) {
                Next::GiveUp(why) => panic!("{why}"),
                Next::Report(_) => reports += 1,
                Next::Wait => {}
            }
        }
        assert_eq!(reports, 90);
    }

    #[test]
    fn a_dead_disk_is_given_up() {
        let mut wait = DiskWait::new(at(0), 5 << 20, STALL);
        assert!(matches!(wait.next(at(120), 5 << 20), Next::Report(_)));
        let why = "has taken nothing for 120 s: 5120 KiB are lost".to_owned();
        assert_eq!(wait.next(at(121), 5 << 20), Next::GiveUp(why));
        // An increase does not count as progress.
        let mut wait = DiskWait::new(at(0), 5 << 20, STALL);
        assert!(
            (1..=121)
                .any(|second| matches!(wait.next(at(second), (5 << 20) + second), Next::GiveUp(_)))
        );
    }

    #[test]
    fn no_disk_holds_the_machine_for_ever() {
        let mut wait = DiskWait::new(at(0), u64::MAX, STALL);
        assert!(
            (1..2000)
                .any(|second| matches!(wait.next(at(second), u64::MAX - second), Next::GiveUp(_)))
        );
    }

    #[test]
    fn dirty_pages_and_writeback_are_unwritten() {
        assert_eq!(
            unwritten("MemFree: 1 kB\nDirty:      20 kB\nWriteback:    3 kB\nWritebackTmp: 9 kB\n"),
            23 << 10
        );
        assert_eq!(unwritten(""), 0);
    }
}
