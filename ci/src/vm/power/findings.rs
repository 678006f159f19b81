//! The results of the cuts so far, from the checks and the machines.

use super::progress::Progress;
use osbuild::error::{Problem, Result};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The check stops after more than this number of problems.
const MAX_PROBLEMS: usize = 20;

/// The cuts that were checked, and the problems.
pub struct Findings {
    progress: Mutex<Progress>,
    problems: Mutex<Vec<Problem>>,
}

impl Findings {
    /// Reads the cuts that an interrupted run had checked from this file.
    pub fn open(done: &Path) -> Result<Self> {
        Ok(Findings { progress: Mutex::new(Progress::open(done)?), problems: Mutex::default() })
    }

    /// Whether the cut was checked.
    pub fn has(&self, cut: usize) -> bool {
        lock(&self.progress).has(cut)
    }

    /// Adds the result of a cut. A cut with a problem is checked again in the next run.
    pub fn add(&self, cut: usize, about: &str, result: Result<()>) -> Result<()> {
        match result {
            Ok(()) => lock(&self.progress).add(cut),
            Err(error) => {
                lock(&self.problems)
                    .extend([Problem::new(about)].into_iter().chain(error.problems));
                Ok(())
            }
        }
    }

    /// Whether the check has found enough problems.
    pub fn are_enough(&self) -> bool {
        lock(&self.problems).len() > MAX_PROBLEMS
    }

    /// All problems.
    pub fn problems(self) -> Vec<Problem> {
        self.problems.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
