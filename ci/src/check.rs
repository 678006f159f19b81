//! A check: a name, something to run, and what came of it. All run, even when one of them failed;
//! some beside each other.

use crate::site::Site;
use osbuild::error::{Error, Kind, Problem, Result};
use osbuild::report::Outcome;
use std::fmt;

/// One row of the table of checks.
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// What it does. An error counts as one failure.
    pub run: fn(&Site) -> Result<Verdict>,
}

/// What came of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// How many claims held.
    pub passed: usize,
    /// Those that did not.
    pub problems: Vec<Problem>,
    /// What the check's line says.
    pub said: String,
}

impl Verdict {
    /// One claim, which holds.
    pub fn holds(said: impl Into<String>) -> Self {
        Verdict { passed: 1, problems: Vec::new(), said: said.into() }
    }

    /// One claim, which holds when there are no problems.
    pub fn of(problems: Vec<Problem>, said: impl Into<String>) -> Self {
        Verdict { passed: usize::from(problems.is_empty()), problems, said: said.into() }
    }

    /// Adds one claim, which does not hold for this reason.
    pub fn claim(&mut self, name: &str, holds: std::result::Result<(), String>) {
        match holds {
            Ok(()) => self.passed += 1,
            Err(why) => self.problems.push(Problem::new(format!("not so: {name}")).cause(why)),
        }
    }
}

/// The sum of all checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Claims that held.
    pub passed: usize,
    /// Claims that did not.
    pub failed: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl Tally {
    fn of(verdict: &Verdict) -> Self {
        Tally { passed: verdict.passed, failed: verdict.problems.len() }
    }

    /// Both together.
    pub fn plus(self, other: Tally) -> Self {
        Tally { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

/// Checks that run one after the other.
pub type Lane = Vec<&'static Check>;

/// Runs these lanes beside each other, with a line for each check that has ended.
pub fn run(site: &Site, lanes: &[Lane]) -> Tally {
    std::thread::scope(|scope| {
        let running: Vec<_> =
            lanes.iter().map(|lane| scope.spawn(|| one_after_the_other(site, lane))).collect();
        // A check that panics is a mistake in the check: the others still count.
        let tallies =
            running.into_iter().map(|lane| lane.join().unwrap_or(Tally { passed: 0, failed: 1 }));
        tallies.fold(Tally::default(), Tally::plus)
    })
}

fn one_after_the_other(site: &Site, lane: &[&Check]) -> Tally {
    let mut tally = Tally::default();
    for check in lane {
        let step = site.report.step(check.name);
        let verdict = judge((check.run)(site));
        let said = match verdict.problems.len() {
            0 => verdict.said.clone(),
            failed => format!("{failed} FAILED"),
        };
        step.done(&said, None, Outcome::Ran);
        tally = tally.plus(Tally::of(&verdict));
        if !verdict.problems.is_empty() {
            site.report.error(&Error::many(Kind::Build, verdict.problems));
        }
    }
    tally
}

/// A check that broke has failed.
fn judge(result: Result<Verdict>) -> Verdict {
    result.unwrap_or_else(|error| Verdict { problems: error.problems, ..Verdict::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_counted_even_when_one_breaks() {
        let fails_twice = Verdict {
            passed: 3,
            problems: vec![Problem::new("one"), Problem::new("two")],
            said: String::new(),
        };
        let results = [Err(Error::build("broken")), Ok(fails_twice), Ok(Verdict::holds("well"))];
        let tallies = results.map(|result| Tally::of(&judge(result)));
        assert_eq!(
            tallies.into_iter().fold(Tally::default(), Tally::plus).to_string(),
            "4 passed, 3 failed"
        );
    }
}
