//! The counters of a command's use of a shared cache.

use crate::engine::action::ActionResult;
use crate::engine::digest::Digest;
use osbuild_remote::Traffic;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The counters, as the steps of a command change them.
#[derive(Default)]
pub(super) struct Counters {
    /// The answer to each request for a result, by the digest of its action: the time that the step
    /// took where it ran, or `None` if the cache lacks the result. A later answer counts instead.
    answers: Mutex<BTreeMap<Digest, Option<Duration>>>,
    executed: AtomicUsize,
}

/// The counters of a command's use of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Results that came from the cache.
    pub hits: usize,
    /// Results that it lacked.
    pub misses: usize,
    /// Steps that it executed.
    pub executed: usize,
    /// The time that the steps of its results took where they ran, one after another. The
    /// writer of the cache chooses this number.
    pub saved: Duration,
    /// Bytes of blobs.
    pub traffic: Traffic,
}

impl Counters {
    /// The cache had this result of an action.
    pub fn hit(&self, action: Digest, result: &ActionResult) {
        self.answers().insert(action, Some(result.wall));
    }

    /// The cache lacked the result of an action.
    pub fn miss(&self, action: Digest) {
        self.answers().insert(action, None);
    }

    /// The service executed a step.
    pub fn execution(&self) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters so far.
    pub fn used(&self, traffic: Traffic) -> Use {
        let answers = self.answers();
        let times = answers.values().flatten();
        let hits = times.clone().count();
        Use {
            hits,
            misses: answers.len() - hits,
            executed: self.executed.load(Ordering::Relaxed),
            saved: times.fold(Duration::ZERO, |sum, time| sum.saturating_add(*time)),
            traffic,
        }
    }

    fn answers(&self) -> MutexGuard<'_, BTreeMap<Digest, Option<Duration>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_names_endless_times_overflows_no_counter() {
        let counters = Counters::default();
        let slow = ActionResult { wall: Duration::MAX, ..ActionResult::default() };
        let fast = ActionResult { wall: Duration::from_secs(2), ..ActionResult::default() };
        counters.hit(Digest::of(b"1"), &fast);
        assert_eq!(counters.used(Traffic::default()).saved, Duration::from_secs(2));
        counters.hit(Digest::of(b"2"), &slow);
        counters.hit(Digest::of(b"3"), &slow);
        let used = counters.used(Traffic::default());
        assert_eq!((used.hits, used.saved), (3, Duration::MAX));
    }

    #[test]
    fn the_last_answer_about_an_action_counts() {
        let counters = Counters::default();
        let (action, result) = (Digest::of(b"action"), ActionResult::default());
        let counted = || {
            let used = counters.used(Traffic::default());
            (used.hits, used.misses)
        };
        counters.miss(action);
        assert_eq!(counted(), (0, 1));
        counters.hit(action, &result);
        counters.hit(action, &result);
        assert_eq!(counted(), (1, 0));
    }
}
