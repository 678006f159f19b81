//! The adjustments of the clock, and the time of the next query (RFC 4330, sections 5 and 10). It
//! uses neither clock nor network nor random numbers.
//!
//! All spans without a unit in their type are in microseconds.

use std::time::Duration;

use crate::agreement::{Agreement, CONFIRMED};

/// A clock that is further off than this is stepped; slewing would take longer than a quarter of an
/// hour.
const STEP_BEYOND: u64 = 500_000;
/// While the clock stays this close, the interval between queries grows.
const CLOSE: u64 = 10_000;
/// The total offset by which a correct clock may be moved, in addition to drift: the limit at which
/// ntpd and ntpd-rs give up.
const MAX_RESERVE: u64 = 1_000_000_000;
/// The maximum drift of a clock is one part in this many (500 ppm, which is also the kernel's
/// limit).
const DRIFT: u128 = 2000;
/// The offset up to which too few servers may move a clock, in seconds: a machine may keep local
/// time.
const DAY: u64 = 86_400;
/// The maximum age of an image in seconds: ten years.
const MAX_IMAGE_AGE: u64 = 3652 * DAY;
/// How often the first agreement waits for more servers.
const MAX_TOO_FEW: u32 = 3;
/// The shortest and the longest interval between queries. Both are powers of two, because the
/// kernel's time constant is a logarithm.
const MIN_INTERVAL: Duration = Duration::from_secs(64);
const MAX_INTERVAL: Duration = Duration::from_secs(1024);
/// The wait after the first failure. Each further wait is twice as long, up to the longest
/// interval, or to the shortest one while the clock is not right: the network may come at any
/// moment.
const FIRST_RETRY: Duration = Duration::from_secs(2);

/// An adjustment of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// Step it by this offset.
    Step(i64),
    /// Slew it by this offset. The interval until the next query sets the kernel's pace.
    Slew(i64, Duration),
}

/// Limits on the time, whatever servers report. Times are in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The time of the image: an earlier time is wrong. 0 if unknown.
    pub image: u64,
    /// When the node last ran, according to its own clock; 0 if it never did.
    pub last: u64,
    /// Whether the machine probably kept the time while it was off: at boot, its clock was behind
    /// neither of the two.
    pub kept: bool,
}

impl Bounds {
    fn check(&self, agreement: &Agreement, then: i128) -> Result<(), Doubt> {
        let is_before = |seconds: u64| then < i128::from(seconds) * 1_000_000;
        if is_before(self.image) {
            return Err(Doubt::BeforeTheImage);
        }
        if self.image > 0 && !is_before(self.image.saturating_add(MAX_IMAGE_AGE)) {
            return Err(Doubt::LongAfterTheImage);
        }
        if agreement.is_confirmed() {
            return Ok(());
        }
        if is_before(self.last.saturating_sub(DAY)) {
            return Err(Doubt::BeforeTheLastBoot);
        }
        // A clock that was lost at power-off can only be behind.
        let is_far = agreement.offset.unsigned_abs() > DAY * 1_000_000;
        if is_far && (self.kept || agreement.offset < 0) { Err(Doubt::Unconfirmed) } else { Ok(()) }
    }
}

/// Why the clock stays unchanged although servers agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The time would be before the image was made.
    BeforeTheImage,
    /// The time would be long after the image was made.
    LongAfterTheImage,
    /// The time would be before the node last ran, and too few servers agree.
    BeforeTheLastBoot,
    /// The offset is more than a day, and too few servers agree.
    Unconfirmed,
    /// The clock was correct, and the offset is more than a correct clock can be off.
    TooFar,
    /// More servers should answer first.
    TooFew,
}

impl Doubt {
    /// The reason in words, for the end of a log line.
    pub fn words(self) -> &'static str {
        match self {
            Doubt::BeforeTheImage => "the image is newer than that time",
            Doubt::LongAfterTheImage => "the image would be more than ten years old",
            Doubt::BeforeTheLastBoot => {
                "the node has run after that time, and fewer than three servers say so"
            }
            Doubt::Unconfirmed => "it is more than a day, and fewer than three servers say so",
            Doubt::TooFar => "a clock that was right is not off by that much; if it is, reboot",
            Doubt::TooFew => "waits for more servers to answer",
        }
    }
}

/// The history of the clock since boot.
#[derive(Debug)]
pub struct Discipline {
    bounds: Bounds,
    /// Once the clock is correct: the offset by which it may still be moved, in microseconds, and
    /// the time of that value.
    reserve: Option<(u64, Duration)>,
    /// How often too few servers have answered.
    too_few: u32,
    interval: Duration,
    failures: u32,
}

impl Discipline {
    /// Starts with a clock that has not been set since boot.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, reserve: None, too_few: 0, interval: MIN_INTERVAL, failures: 0 }
    }

    /// Starts with a clock that another process has set since boot, as of `now`.
    pub fn of_right_clock(bounds: Bounds, now: Duration) -> Self {
        Self { reserve: Some((MAX_RESERVE, now)), ..Self::new(bounds) }
    }

    /// Whether the clock has been set at least once.
    pub fn is_right(&self) -> bool {
        self.reserve.is_some()
    }

    /// Takes an agreement and returns the adjustment. `clock` is the clock's time since 1970; `now`
    /// is a monotonic time; `servers` is the number of configured servers. The first agreement sets
    /// the clock; later ones move it by no more than a correct clock can be off.
    pub fn take(
        &mut self,
        agreement: &Agreement,
        servers: usize,
        clock: Duration,
        now: Duration,
    ) -> Result<Adjustment, Doubt> {
        let adjustment = self.check(agreement, servers, clock, now);
        match adjustment {
            Ok(_) => self.failures = 0,
            Err(_) => self.fail(),
        }
        adjustment
    }

    fn check(
        &mut self,
        agreement: &Agreement,
        servers: usize,
        clock: Duration,
        now: Duration,
    ) -> Result<Adjustment, Doubt> {
        let offset = agreement.offset;
        self.bounds.check(agreement, i128::from(offset) + clock.as_micros() as i128)?;
        let Some((reserve, at)) = self.reserve else {
            if agreement.answered < servers.min(CONFIRMED) && self.too_few < MAX_TOO_FEW {
                self.too_few += 1;
                return Err(Doubt::TooFew);
            }
            (self.reserve, self.interval) = (Some((MAX_RESERVE, now)), MIN_INTERVAL);
            return Ok(Adjustment::Step(offset));
        };
        let drift = now.saturating_sub(at).as_micros() / DRIFT;
        let reserve =
            MAX_RESERVE.min(reserve.saturating_add(drift.try_into().unwrap_or(MAX_RESERVE)));
        self.reserve = Some((reserve, now));
        let left = reserve.checked_sub(offset.unsigned_abs()).ok_or(Doubt::TooFar)?;
        self.reserve = Some((left, now));
        if offset.unsigned_abs() > STEP_BEYOND {
            self.interval = MIN_INTERVAL;
            return Ok(Adjustment::Step(offset));
        }
        self.interval = if offset.unsigned_abs() <= CLOSE {
            MAX_INTERVAL.min(self.interval * 2)
        } else {
            MIN_INTERVAL
        };
        Ok(Adjustment::Slew(offset, self.interval))
    }

    /// Records a query without an accepted majority.
    pub fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// The wait before the next query, plus up to a sixteenth at random (`random` is any number),
    /// so that nodes that start together do not query together.
    pub fn wait(&self, random: u32) -> Duration {
        let max = if self.is_right() { MAX_INTERVAL } else { MIN_INTERVAL };
        let wait = match self.failures {
            0 => self.interval,
            failures => max.min(FIRST_RETRY * (1 << (failures - 1).min(9))),
        };
        wait + (wait / 16).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The time of the image in these tests, and the clock's time.
    const IMAGE: u64 = 1_790_000_000;
    const CLOCK: Duration = Duration::from_secs(IMAGE + 1000);
    const SECOND: i64 = 1_000_000;
    const DAYS: i64 = DAY as i64 * SECOND;

    fn by(servers: usize, offset: i64) -> Agreement {
        Agreement { offset, agreeing: servers, answered: servers }
    }

    fn bounds() -> Bounds {
        Bounds { image: IMAGE, last: IMAGE + 500, kept: true }
    }

    /// The result of the first agreement after boot.
    fn first(bounds: Bounds, agreement: &Agreement) -> Result<Adjustment, Doubt> {
        Discipline::new(bounds).take(agreement, agreement.answered, CLOCK, Duration::ZERO)
    }

    fn right() -> Discipline {
        Discipline::of_right_clock(bounds(), Duration::ZERO)
    }

    fn take(discipline: &mut Discipline, offset: i64, now: u64) -> Result<Adjustment, Doubt> {
        discipline.take(&by(1, offset), 1, CLOCK, Duration::from_secs(now))
    }

    #[test]
    fn the_first_agreement_sets_the_clock() {
        assert_eq!(first(bounds(), &by(1, -3)), Ok(Adjustment::Step(-3)));
    }

    #[test]
    fn one_server_moves_a_clock_that_was_kept_by_a_day_at_most() {
        assert_eq!(first(bounds(), &by(1, DAYS)), Ok(Adjustment::Step(DAYS)));
        assert_eq!(first(bounds(), &by(2, DAYS + 1)), Err(Doubt::Unconfirmed));
        assert_eq!(
            first(bounds(), &by(3, DAYS + 1)),
            Ok(Adjustment::Step(DAYS + 1)),
            "three move it further"
        );
    }

    #[test]
    fn one_server_sets_forward_a_clock_that_was_lost() {
        let lost = Bounds { kept: false, ..bounds() };
        assert_eq!(first(lost, &by(1, 300 * DAYS)), Ok(Adjustment::Step(300 * DAYS)));
        let later = Bounds { image: IMAGE - 10 * DAY, last: IMAGE - 9 * DAY, ..lost };
        assert_eq!(
            first(later, &by(1, -DAYS - 1)),
            Err(Doubt::Unconfirmed),
            "such a clock is never ahead"
        );
    }

    #[test]
    fn one_server_moves_back_by_a_day_and_three_to_the_image() {
        let bounds = Bounds { image: IMAGE - 9 * DAY, last: IMAGE + 2 * DAY, kept: true };
        let offset = -SECOND * 1000;
        assert_eq!(first(bounds, &by(2, offset)), Err(Doubt::BeforeTheLastBoot));
        assert_eq!(first(bounds, &by(3, offset)), Ok(Adjustment::Step(offset)));
        assert_eq!(first(bounds, &by(3, -9 * DAYS)), Ok(Adjustment::Step(-9 * DAYS)));
    }

    #[test]
    fn no_server_moves_the_clock_before_the_image_or_ten_years_past_it() {
        assert_eq!(first(bounds(), &by(4, -1000 * SECOND)), Ok(Adjustment::Step(-1000 * SECOND)));
        assert_eq!(first(bounds(), &by(4, -1000 * SECOND - 1)), Err(Doubt::BeforeTheImage));
        let last = MAX_IMAGE_AGE as i64 * SECOND - 1000 * SECOND - 1;
        assert_eq!(first(bounds(), &by(4, last)), Ok(Adjustment::Step(last)));
        assert_eq!(first(bounds(), &by(4, last + 1)), Err(Doubt::LongAfterTheImage));
        for offset in [i64::MIN, i64::MAX] {
            assert!(first(bounds(), &by(4, offset)).is_err());
        }
    }

    #[test]
    fn the_first_agreement_waits_for_three_servers_a_while() {
        let mut discipline = Discipline::new(bounds());
        for _ in 0..MAX_TOO_FEW {
            assert_eq!(discipline.take(&by(1, 5), 4, CLOCK, Duration::ZERO), Err(Doubt::TooFew));
        }
        assert_eq!(discipline.take(&by(1, 5), 4, CLOCK, Duration::ZERO), Ok(Adjustment::Step(5)));
    }

    #[test]
    fn later_only_half_a_second_sets_it() {
        assert!(matches!(take(&mut right(), 500_000, 0), Ok(Adjustment::Slew(500_000, _))));
        assert!(matches!(take(&mut right(), -500_000, 0), Ok(Adjustment::Slew(-500_000, _))));
        assert_eq!(take(&mut right(), 500_001, 0), Ok(Adjustment::Step(500_001)));
        assert_eq!(take(&mut right(), -500_001, 0), Ok(Adjustment::Step(-500_001)));
    }

    #[test]
    fn a_right_clock_moves_by_its_reserve_and_then_by_its_drift() {
        let mut discipline = right();
        assert_eq!(take(&mut discipline, 1000 * SECOND + 1, 0), Err(Doubt::TooFar));
        assert_eq!(take(&mut discipline, -1000 * SECOND, 0), Ok(Adjustment::Step(-1000 * SECOND)));
        assert_eq!(take(&mut discipline, SECOND, 1000), Err(Doubt::TooFar), "0.5 s in 1000 s");
        assert_eq!(take(&mut discipline, SECOND, 2000), Ok(Adjustment::Step(SECOND)));
        let all = Agreement { offset: SECOND, agreeing: 4, answered: 4 };
        let refused = discipline.take(&all, 4, CLOCK, Duration::from_secs(2000));
        assert_eq!(refused, Err(Doubt::TooFar), "however many servers agree");
    }

    #[test]
    fn a_clock_that_stays_right_is_checked_less_and_less_often() {
        let mut discipline = right();
        let mut waits = vec![discipline.wait(0).as_secs()];
        for _ in 0..6 {
            take(&mut discipline, 10_000, 0).unwrap();
            waits.push(discipline.wait(0).as_secs());
        }
        assert_eq!(waits, [64, 128, 256, 512, 1024, 1024, 1024]);
        take(&mut discipline, 10_001, 0).unwrap();
        assert_eq!(discipline.wait(0).as_secs(), 64);
    }

    #[test]
    fn failures_are_retried_less_and_less_often() {
        let mut discipline = right();
        assert_eq!(waits(&mut discipline), [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        take(&mut discipline, 0, 0).unwrap();
        assert_eq!(discipline.wait(0).as_secs(), 128);
    }

    #[test]
    fn a_clock_that_is_not_right_yet_asks_at_least_once_a_minute() {
        let mut discipline = Discipline::new(bounds());
        assert_eq!(waits(&mut discipline), [2, 4, 8, 16, 32, 64, 64, 64, 64, 64, 64, 64]);
    }

    /// The waits in seconds after twelve failures.
    fn waits(discipline: &mut Discipline) -> [u64; 12] {
        [(); 12].map(|()| {
            discipline.fail();
            discipline.wait(0).as_secs()
        })
    }

    #[test]
    fn the_random_part_only_prolongs_the_wait() {
        assert_eq!((right().wait(0).as_secs(), right().wait(u32::MAX).as_secs()), (64, 68));
    }

    proptest! {
        #[test]
        fn one_server_moves_a_right_clock_by_its_reserve_and_drift_at_most(
            answers in prop::collection::vec(
                (1..5000u64, any::<i64>(), -2_000_000_000..2_000_000_000i64, any::<bool>()),
                1..50,
            ),
        ) {
            let (mut discipline, mut now, mut moved) = (right(), 0, 0u128);
            for (passed, wild, mild, is_wild) in answers {
                now += passed;
                if let Ok(Adjustment::Step(by) | Adjustment::Slew(by, _)) =
                    take(&mut discipline, if is_wild { wild } else { mild }, now)
                {
                    moved += u128::from(by.unsigned_abs());
                }
                let max = u128::from(MAX_RESERVE) + u128::from(now) * 1_000_000 / DRIFT;
                prop_assert!(moved <= max, "{moved} us of {max} us in {now} s");
            }
        }
    }
}
