//! The progress of calls: a call without any is given up, and their bytes are counted.

use crate::Fault;
use crate::retry::{Retry, TICK};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The bytes of blobs that a cache sent and got, as they went over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that came from the cache.
    pub received: u64,
    /// Bytes that went to the cache.
    pub sent: u64,
}

/// The bytes so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    received: AtomicU64,
    sent: AtomicU64,
}

impl Counters {
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
        }
    }
}

/// The progress of one call.
#[derive(Clone)]
pub(crate) struct Progress {
    counters: Arc<Counters>,
    last: Arc<Mutex<Instant>>,
}

impl Progress {
    pub(crate) fn new(counters: &Arc<Counters>) -> Self {
        let counters = Arc::clone(counters);
        Progress { counters, last: Arc::new(Mutex::new(Instant::now())) }
    }

    /// A message with these bytes came. One without bytes is no progress: a server could send such
    /// for ever.
    pub(crate) fn received(&self, bytes: usize) {
        self.counters.received.fetch_add(bytes as u64, Ordering::Relaxed);
        if bytes > 0 {
            self.touch();
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.counters.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.touch();
    }

    pub(crate) fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn idle(&self) -> Duration {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Ends when the user wants to stop, or when the call makes no progress.
    pub(crate) async fn watch(&self, retry: &Retry) -> Fault {
        loop {
            tokio::time::sleep(TICK).await;
            if (retry.is_stopped)() {
                return Fault::Stopped;
            }
            let idle = self.idle();
            if idle > retry.idle_timeout {
                return Fault::Silent(format!("no response for {} s", idle.as_secs()));
            }
        }
    }
}
