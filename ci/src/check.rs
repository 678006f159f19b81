//! A check: a name, a function, and its outcome. Every check runs, even if an earlier one failed or
//! panicked; lanes of checks run in parallel.

use crate::site::Site;
use osbuild::engine::stop;
use osbuild::error::{Error, Kind, Problem, Result};
use osbuild::report::{self, Report};
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One row of the table of checks.
pub struct Check {
    /// The name that `cargo ci NAME` takes.
    pub name: &'static str,
    /// The check itself. An error counts as one failure for each of its problems.
    pub run: fn(&Site) -> Result<Outcome>,
}

/// A time that a check measured.
#[derive(Debug)]
pub struct Timed {
    /// The claim that it belongs to.
    pub claim: String,
    /// The time.
    pub took: Duration,
    /// The time that the project aims at.
    pub aim: Duration,
}

/// The outcome of a check.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many claims held.
    pub passed: usize,
    /// The claims that cannot be checked here, each with the reason.
    pub unchecked: Vec<String>,
    /// One problem for each claim that did not hold.
    pub problems: Vec<Problem>,
    /// The text behind the check's name in the report.
    pub summary: String,
    /// The times that it measured.
    pub times: Vec<Timed>,
}

impl Outcome {
    /// The outcome of a single claim that holds.
    pub fn holds(summary: impl Into<String>) -> Self {
        Outcome { passed: 1, summary: summary.into(), ..Outcome::default() }
    }

    /// The outcome of a single claim, which holds if there are no problems.
    pub fn of(problems: Vec<Problem>, summary: impl Into<String>) -> Self {
        let (passed, summary) = (usize::from(problems.is_empty()), summary.into());
        Outcome { passed, problems, summary, ..Outcome::default() }
    }

    /// Adds the claims of another outcome, whose summary replaces this one's.
    pub fn add(&mut self, other: Outcome) {
        self.passed += other.passed;
        self.problems.extend(other.problems);
        self.unchecked.extend(other.unchecked);
        self.summary = other.summary;
        self.times.extend(other.times);
    }

    /// Adds a claim. `why` gives the reason if it does not hold.
    pub fn check(&mut self, name: &str, holds: bool, why: impl FnOnce() -> String) {
        self.claim(name, if holds { Ok(()) } else { Err(why()) });
    }

    /// Adds a claim; the error is the reason why it does not hold.
    pub fn claim(&mut self, name: &str, holds: std::result::Result<(), String>) {
        let problem = holds.err().map(|why| unmet(name).cause(why));
        self.passed += usize::from(problem.is_none());
        self.problems.extend(problem.clone());
        SO_FAR.with_borrow_mut(|so_far| {
            so_far.passed += usize::from(problem.is_none());
            so_far.problems.extend(problem);
        });
    }
}

thread_local! {
    /// The claims of the check that runs on this thread. One that ends with an error drops its own
    /// outcome, and an earlier claim is often the cause.
    static SO_FAR: RefCell<Outcome> = RefCell::default();
}

/// The problem of a claim that does not hold.
pub fn unmet(claim: &str) -> Problem {
    Problem::new(format!("does not hold: {claim}"))
}

/// The sum of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Claims that held.
    pub passed: usize,
    /// Claims that did not.
    pub failed: usize,
    /// Claims that cannot be checked here, each with the reason.
    pub unchecked: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.unchecked.len() {
            0 => Ok(()),
            count => write!(f, ", {count} not checked"),
        }
    }
}

impl Tally {
    fn of(outcome: &Outcome) -> Self {
        Tally {
            passed: outcome.passed,
            failed: outcome.problems.len(),
            unchecked: outcome.unchecked.clone(),
        }
    }

    /// The sum of both.
    pub fn plus(self, other: Tally) -> Self {
        Tally {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            unchecked: [self.unchecked, other.unchecked].concat(),
        }
    }
}

/// Checks that run one after another.
pub struct Lane {
    /// The check of another lane that has to end before.
    pub after: Option<&'static str>,
    /// The checks.
    pub checks: Vec<&'static Check>,
}

/// The number of lanes that run at once: each leaves half of two processors idle.
const AT_ONCE: usize = 2;

/// Runs the lanes in their order, [`AT_ONCE`] of them in parallel, and reports each check when it
/// ends. Once the user wants to stop, no further check begins.
pub fn run(site: &Site, lanes: &[Lane]) -> Tally {
    let queue = Queue::new(lanes);
    let run_all = || {
        let mut tally = Tally::default();
        while let Some(lane) = queue.next() {
            let checks = lane.checks.iter().map(|check| (check.name, || (check.run)(site)));
            let has_ended = |name| queue.note_end([name]);
            tally = tally.plus(run_lane(site.report, checks, stop::check, has_ended));
            // After a request to stop some have not begun.
            queue.note_end(lane.checks.iter().map(|check| check.name));
        }
        tally
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run_all)).collect();
        let tallies = running.into_iter().map(|lanes| lanes.join().expect("it catches panics"));
        tallies.fold(Tally::default(), Tally::plus)
    })
}

/// Lanes that have to run.
struct Queue<'l> {
    state: Mutex<Waiting<'l>>,
    /// Signals that a check has ended.
    ended: Condvar,
}

/// Lanes that have not begun, and the names of the checks that have ended.
struct Waiting<'l> {
    lanes: VecDeque<&'l Lane>,
    ended: BTreeSet<&'static str>,
}

impl<'l> Queue<'l> {
    fn new(lanes: &'l [Lane]) -> Self {
        let state = Waiting { lanes: lanes.iter().collect(), ended: BTreeSet::new() };
        Queue { state: Mutex::new(state), ended: Condvar::new() }
    }

    /// The next lane, once one may begin.
    fn next(&self) -> Option<&'l Lane> {
        let mut state = self.lock();
        loop {
            let Waiting { lanes, ended } = &mut *state;
            let may_begin = |lane: &&Lane| lane.after.is_none_or(|name| ended.contains(name));
            match lanes.iter().position(may_begin) {
                Some(first) => return lanes.remove(first),
                None if lanes.is_empty() => return None,
                None => state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Notes that these checks have ended.
    fn note_end(&self, names: impl IntoIterator<Item = &'static str>) {
        self.lock().ended.extend(names);
        self.ended.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<'l>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs checks one after another, and calls `has_ended` with the name of each at its end.
fn run_lane<'n, F: FnOnce() -> Result<Outcome>>(
    report: &Report,
    checks: impl Iterator<Item = (&'n str, F)>,
    go_on: impl Fn() -> Result<()>,
    has_ended: impl Fn(&'n str),
) -> Tally {
    let mut tally = Tally::default();
    for (name, check) in checks {
        if go_on().is_err() {
            break;
        }
        let step = report.step(name);
        let outcome = outcome_of(check);
        has_ended(name);
        if go_on().is_err() {
            // Its problems are those of programs that were ended.
            step.done("stopped", None, report::Outcome::Ran);
            break;
        }
        let summary = match outcome.problems.len() {
            0 => outcome.summary.clone(),
            failed => format!("{failed} FAILED"),
        };
        step.done(&summary, None, report::Outcome::Ran);
        tally = tally.plus(Tally::of(&outcome));
        if !outcome.problems.is_empty() {
            report.error(&Error::many(Kind::Build, outcome.problems));
        }
    }
    tally
}

/// Runs a check. One that ends with an error has failed, with the claims that it made before. A
/// panic is a mistake in the check: it fails, and the lane goes on.
fn outcome_of(check: impl FnOnce() -> Result<Outcome>) -> Outcome {
    SO_FAR.take();
    catch_unwind(AssertUnwindSafe(check))
        .unwrap_or_else(|panic| Err(Error::build("the check panicked").cause(message(&*panic))))
        .unwrap_or_else(|error| {
            let mut outcome = SO_FAR.take();
            outcome.problems.extend(error.problems);
            outcome
        })
}

/// The text that `panic!` was called with.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "its message is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild::report::{Color, Verbosity};
    use std::sync::atomic::{AtomicBool, Ordering};

    type NamedCheck = (&'static str, fn() -> Result<Outcome>);

    #[test]
    fn every_check_is_counted_even_when_one_breaks() {
        let two = || {
            let problems = vec![Problem::new("one"), Problem::new("two")];
            Ok(Outcome { passed: 3, problems, ..Outcome::default() })
        };
        let checks: [NamedCheck; 3] = [
            ("breaks", || Err(Error::build("broken"))),
            ("fails", two),
            ("holds", || Ok(Outcome::holds("well"))),
        ];
        let tally = run_lane(&report(), checks.into_iter(), || Ok(()), |_| ());
        assert_eq!(tally.to_string(), "4 passed, 3 failed");
    }

    #[test]
    fn a_claim_that_cannot_be_checked_is_in_the_last_line() {
        let lacks = || Ok(Outcome { unchecked: vec!["why".into()], ..Outcome::holds("") });
        let checks: [NamedCheck; 2] = [("lacks", lacks), ("holds", || Ok(Outcome::holds("")))];
        let tally = run_lane(&report(), checks.into_iter(), || Ok(()), |_| ());
        assert_eq!(tally.to_string(), "2 passed, 0 failed, 1 not checked");
        assert_eq!(tally.unchecked, ["why"]);
    }

    #[test]
    fn no_check_begins_after_a_request_to_stop() {
        let is_asked = AtomicBool::new(false);
        let checks: [(&str, &dyn Fn() -> Result<Outcome>); 3] = [
            ("holds", &|| Ok(Outcome::holds(""))),
            ("is stopped", &|| {
                is_asked.store(true, Ordering::Relaxed);
                Err(Error::stopped())
            }),
            ("never begins", &|| panic!("it has begun")),
        ];
        let go_on =
            || if is_asked.load(Ordering::Relaxed) { Err(Error::stopped()) } else { Ok(()) };
        let tally = run_lane(&report(), checks.into_iter(), go_on, |_| ());
        assert_eq!(tally.to_string(), "1 passed, 0 failed");
    }

    #[test]
    fn a_check_that_breaks_counts_the_claims_that_it_made_before() {
        let breaks = || {
            let mut outcome = Outcome::default();
            outcome.check("one", true, String::new);
            outcome.check("two", false, || "why".to_owned());
            Err(Error::build("broken"))
        };
        for _ in 0..2 {
            let outcome = outcome_of(breaks);
            let problems: Vec<&str> =
                outcome.problems.iter().map(|problem| &*problem.message).collect();
            assert_eq!((outcome.passed, problems), (1, vec!["does not hold: two", "broken"]));
        }
    }

    #[test]
    fn a_check_that_panics_fails_and_its_lane_goes_on() {
        let checks: [NamedCheck; 2] =
            [("panics", || panic!("index {} of 3", 3)), ("holds", || Ok(Outcome::holds("well")))];
        let tally = run_lane(&report(), checks.into_iter(), || Ok(()), |_| ());
        assert_eq!(tally.to_string(), "1 passed, 1 failed");
    }

    #[test]
    fn a_panic_is_reported_with_its_message() {
        let formatted = outcome_of(|| panic!("index {} of 3", 3));
        assert_eq!(formatted.problems[0].message, "the check panicked");
        assert_eq!(formatted.problems[0].causes, ["index 3 of 3"]);
        assert_eq!(outcome_of(|| panic!("plain")).problems[0].causes, ["plain"]);
    }

    #[test]
    fn a_lane_waits_for_the_check_that_it_needs() {
        let lane = |after, name| {
            let check = Box::leak(Box::new(Check { name, run: |_| Ok(Outcome::holds("")) }));
            Lane { after, checks: vec![check] }
        };
        let lanes = [lane(Some("built"), "boots"), lane(None, "built"), lane(None, "apart")];
        let queue = Queue::new(&lanes);
        let next = || queue.next().map(|lane| lane.checks[0].name);
        assert_eq!([next(), next()], [Some("built"), Some("apart")]);
        std::thread::scope(|scope| {
            let waits = scope.spawn(next);
            queue.note_end(["built"]);
            assert_eq!(waits.join().unwrap(), Some("boots"));
        });
        assert_eq!(next(), None);
    }

    fn report() -> Report {
        Report::new(Verbosity::Quiet, Color::Never)
    }
}
