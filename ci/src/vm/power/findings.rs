//! What has come of the cuts so far, from whoever looked at one.

use super::progress::Progress;
use osbuild::error::{Problem, Result};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// With so many problems a check has shown enough.
const MOST_PROBLEMS: usize = 20;

/// The cuts that are done with, and what was found wrong.
pub struct Findings {
    progress: Mutex<Progress>,
    problems: Mutex<Vec<Problem>>,
}

impl Findings {
    /// Those of an earlier try that was interrupted are known from this file.
    pub fn open(done: &Path) -> Result<Self> {
        Ok(Findings { progress: Mutex::new(Progress::open(done)?), problems: Mutex::default() })
    }

    /// Whether that cut is done with.
    pub fn has(&self, cut: usize) -> bool {
        lock(&self.progress).has(cut)
    }

    /// Notes what has come of a cut. One that was not survived is tried again the next time.
    pub fn add(&self, cut: usize, about: &str, came: Result<()>) -> Result<()> {
        match came {
            Ok(()) => lock(&self.progress).add(cut),
            Err(error) => {
                lock(&self.problems)
                    .extend([Problem::new(about)].into_iter().chain(error.problems));
                Ok(())
            }
        }
    }

    /// Whether more would show nothing new.
    pub fn are_enough(&self) -> bool {
        lock(&self.problems).len() > MOST_PROBLEMS
    }

    /// All that was found wrong.
    pub fn problems(self) -> Vec<Problem> {
        self.problems.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
