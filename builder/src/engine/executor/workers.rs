//! The state that the executors of one command share.

use super::processors::Processors;
use crate::engine::stop::Stop;
use crate::engine::store::Store;
use crate::error::Result;
use rustix::thread::CpuSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The processors of the steps of one command, and the request to stop these steps. Builds of
/// several recipes whose steps are in one graph share it.
#[derive(Clone, Default)]
pub struct Workers {
    /// Chosen when the first step runs, because a build that finds everything in the store needs
    /// none.
    processors: Arc<Mutex<Option<Processors>>>,
    stop: Stop,
}

impl Workers {
    /// The request that stops the running steps, for a [`crate::engine::graph::Graph`].
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The processors of the steps, at most `jobs`.
    ///
    /// # Errors
    /// The processors of this machine cannot be counted, or the store cannot be written.
    pub(super) fn processors(&self, store: &Store, jobs: usize) -> Result<CpuSet> {
        let mut processors = self.processors.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *processors {
            Some(chosen) => Ok(chosen.set()),
            none => Ok(none.insert(Processors::choose(store, jobs)?).set()),
        }
    }
}
