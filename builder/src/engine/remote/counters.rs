//! The counters of a command's use of a shared cache.

use crate::engine::action::ActionResult;
use osbuild_remote::Traffic;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The counters, as the steps of a command change them.
#[derive(Default)]
pub(super) struct Counters {
    hits: AtomicUsize,
    misses: AtomicUsize,
    executed: AtomicUsize,
    saved_ms: AtomicU64,
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
    /// The cache had this result.
    pub fn hit(&self, result: &ActionResult) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        let wall_ms = u64::try_from(result.wall.as_millis()).unwrap_or(u64::MAX);
        let add = |saved: u64| Some(saved.saturating_add(wall_ms));
        // The closure always returns a value, so the update cannot fail.
        let _ = self.saved_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The cache lacked a result.
    pub fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// The service executed a step.
    pub fn execution(&self) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }

    /// The service had this result after all: it lacked it under the key of the local store alone.
    pub fn late_hit(&self, result: &ActionResult) {
        self.misses.fetch_sub(1, Ordering::Relaxed);
        self.hit(result);
    }

    /// The counters so far.
    pub fn used(&self, traffic: Traffic) -> Use {
        Use {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            executed: self.executed.load(Ordering::Relaxed),
            saved: Duration::from_millis(self.saved_ms.load(Ordering::Relaxed)),
            traffic,
        }
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
        counters.hit(&fast);
        assert_eq!(counters.used(Traffic::default()).saved, Duration::from_secs(2));
        counters.hit(&slow);
        counters.hit(&slow);
        let used = counters.used(Traffic::default());
        assert_eq!((used.hits, used.saved), (3, Duration::from_millis(u64::MAX)));
    }
}
