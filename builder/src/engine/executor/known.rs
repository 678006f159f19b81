//! Results whose files a build does not need, as the step that reads them has a result already.

use super::{Executor, Rebuild};
use crate::engine::action::{Action, ActionResult};
use crate::engine::remote::{Remote, Trust};
use crate::error::Result;
use crate::report::Outcome;
use std::sync::Arc;

/// The result of an action, whose files may not be in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The result.
    pub result: ActionResult,
    outcome: Outcome,
}

impl Executor {
    /// The result of an action that the store or the shared cache has. `None` if neither has it, or
    /// the step is to run again.
    ///
    /// # Errors
    /// The store cannot be written, or the user wants to stop.
    pub fn known(&self, action: &Action) -> Result<Option<Known>> {
        let key = action.digest();
        if self.rebuild.wants(&action.name) {
            return Ok(None);
        }
        // Files that are there count as used, so that the store keeps them.
        let stored = self.store.recall(&key).or_else(|| self.store.record(&key));
        if let Some(result) = stored.filter(|result| self.trusts(result)) {
            return Ok(Some(Known { result, outcome: Outcome::Stored }));
        }
        let Some(remote) = self.cache() else { return Ok(None) };
        let Some(result) = remote.record(&key, action)? else { return Ok(None) };
        self.store.remember(&key, &result)?;
        Ok(Some(Known { result, outcome: Outcome::Fetched }))
    }

    /// Ends a step whose result was enough, without its files.
    pub fn pass(&self, action: &Action, known: &Known) {
        let step = self.report.step(&action.name);
        self.ended(step, action, &known.result, known.outcome, false);
    }

    /// The shared cache whose results count. None do if steps run again, or only this machine may
    /// make them.
    pub(super) fn cache(&self) -> Option<&Arc<Remote>> {
        let counts = self.rebuild == Rebuild::Nothing && self.trust == Trust::Everywhere;
        self.remote.as_ref().filter(|_| counts)
    }
}
