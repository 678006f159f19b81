//! What to do with the clock, and when to ask again (RFC 4330, sections 5 and 10). It knows neither clock nor network nor chance.
//!
//! All spans without a unit in their type are in microseconds.

use std::time::Duration;

/// A clock that is further off than this is set at once; slewing it would take longer than a quarter of an hour.
const STEP_BEYOND: i64 = 500_000;
/// A clock that stays this close is looked at ever more rarely.
const CLOSE: i64 = 10_000;
/// The first and the longest wait between two questions. Both are powers of two, as the kernel's time constant is a logarithm.
const SHORTEST: Duration = Duration::from_secs(64);
const LONGEST: Duration = Duration::from_secs(1024);
/// How long to wait after the first failure; every further wait is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(2);
/// As many failures as make the wait as long as [`SHORTEST`].
const MANY: u32 = 6;

/// What a server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How far the clock is behind the server's.
    pub offset: i64,
    /// How long question and answer were under way.
    pub delay: u64,
    /// How many servers away the reference clock is.
    pub stratum: u8,
}

/// What is to be done to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// Set it forward by this much, or back.
    Step(i64),
    /// Let it run faster or slower until this much is made up for. The wait until the next look is what the kernel paces it by.
    Slew(i64, Duration),
}

/// The sample that is believed: of three or more that in the middle, as most of the servers are right; else the first.
pub fn choose(samples: &[Sample]) -> Option<Sample> {
    if samples.len() < 3 {
        return samples.first().copied();
    }
    let mut samples = samples.to_vec();
    samples.sort_by_key(|sample| sample.offset);
    samples.get(samples.len() / 2).copied()
}

/// Whether the clock would show a moment before `earliest` if it were set by the sample: then the server is wrong, or lies.
/// Both moments are in seconds since 1970.
pub fn goes_before(sample: Sample, now: Duration, earliest: u64) -> bool {
    let then = i128::from(sample.offset) + now.as_micros() as i128;
    then < i128::from(earliest) * 1_000_000
}

/// Remembers how it went so far.
#[derive(Debug)]
pub struct Discipline {
    /// Whether the clock has been set right at least once.
    right: bool,
    interval: Duration,
    failures: u32,
}

impl Default for Discipline {
    fn default() -> Self {
        Self { right: false, interval: SHORTEST, failures: 0 }
    }
}

impl Discipline {
    /// Takes a sample and says what to do: the first one sets the clock.
    pub fn take(&mut self, sample: Sample) -> Adjustment {
        self.failures = 0;
        if !self.right || sample.offset.abs() > STEP_BEYOND {
            self.right = true;
            self.interval = SHORTEST;
            return Adjustment::Step(sample.offset);
        }
        self.interval = if sample.offset.abs() <= CLOSE { LONGEST.min(self.interval * 2) } else { SHORTEST };
        Adjustment::Slew(sample.offset, self.interval)
    }

    /// Notes that no server has answered so that it could be believed.
    pub fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes that a server wants to be asked less often.
    pub fn slow_down(&mut self) {
        self.interval = LONGEST.min(self.interval * 2);
        self.failures = self.failures.max(MANY);
    }

    /// How long to wait before the next question: what is due, and up to a sixteenth more by chance (`random` is any number), so
    /// that nodes which were started together do not ask together.
    pub fn wait(&self, random: u32) -> Duration {
        let wait = match self.failures {
            0 => self.interval,
            failures => LONGEST.min(FIRST_RETRY * (1 << (failures - 1).min(9))),
        };
        wait + (wait / 16).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off_by(offset: i64) -> Sample {
        Sample { offset, delay: 100, stratum: 2 }
    }

    fn right() -> Discipline {
        let mut discipline = Discipline::default();
        discipline.take(off_by(0));
        discipline
    }

    #[test]
    fn the_first_sample_sets_the_clock() {
        assert_eq!(Discipline::default().take(off_by(-3)), Adjustment::Step(-3));
    }

    #[test]
    fn later_only_half_a_second_sets_it() {
        assert!(matches!(right().take(off_by(500_000)), Adjustment::Slew(500_000, _)));
        assert!(matches!(right().take(off_by(-500_000)), Adjustment::Slew(-500_000, _)));
        assert_eq!(right().take(off_by(500_001)), Adjustment::Step(500_001));
        assert_eq!(right().take(off_by(-500_001)), Adjustment::Step(-500_001));
    }

    #[test]
    fn a_clock_that_stays_right_is_looked_at_ever_more_rarely() {
        let mut discipline = right();
        let mut waits = vec![discipline.wait(0).as_secs()];
        for _ in 0..6 {
            discipline.take(off_by(10_000));
            waits.push(discipline.wait(0).as_secs());
        }
        assert_eq!(waits, [64, 128, 256, 512, 1024, 1024, 1024]);
        discipline.take(off_by(10_001));
        assert_eq!(discipline.wait(0).as_secs(), 64);
    }

    #[test]
    fn failures_are_retried_ever_more_slowly() {
        let mut discipline = Discipline::default();
        let mut waits = Vec::new();
        for _ in 0..12 {
            discipline.fail();
            waits.push(discipline.wait(0).as_secs());
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        discipline.take(off_by(0));
        assert_eq!(discipline.wait(0).as_secs(), 64);
    }

    #[test]
    fn a_server_that_asks_for_peace_gets_it() {
        let mut discipline = Discipline::default();
        discipline.slow_down();
        assert_eq!(discipline.wait(0), SHORTEST, "even before the clock is right");
        assert_eq!(discipline.interval, SHORTEST * 2);
    }

    #[test]
    fn chance_only_ever_prolongs_the_wait() {
        assert_eq!((right().wait(0).as_secs(), right().wait(u32::MAX).as_secs()), (64, 68));
    }

    #[test]
    fn of_three_servers_one_may_be_wrong() {
        let samples = [off_by(1_000_000_000), off_by(5), off_by(7)];
        assert_eq!(choose(&samples), Some(off_by(7)));
        assert_eq!(choose(&samples[..2]), Some(samples[0]), "of two, nobody can say which: the first is preferred");
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn the_clock_never_goes_before_the_image() {
        let now = Duration::from_secs(1000);
        assert!(!goes_before(off_by(-1_000_000), now, 999));
        assert!(goes_before(off_by(-1_000_001), now, 999));
        assert!(goes_before(off_by(i64::MIN), now, 0));
    }
}
