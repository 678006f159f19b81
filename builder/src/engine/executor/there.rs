//! Runs an action on a service of remote execution instead of here.

use super::Executor;
use super::log::Log;
use crate::engine::action::{Action, ActionResult};
use crate::engine::remote::{Executed, Remote};
use crate::error::Result;
use crate::report::{Outcome, Step};
use std::sync::Arc;

impl Executor {
    /// The service that may execute the actions. Steps that run again, or that only this machine
    /// may make, never run there.
    pub fn service(&self) -> Option<&Arc<Remote>> {
        self.cache().filter(|remote| remote.executes())
    }

    /// The result of an action that a service executed, and whether it had that result before.
    /// `None` if the action has to run here.
    pub(super) fn execute_there(
        &self,
        action: &Action,
        step: &Step,
    ) -> Result<Option<(ActionResult, Outcome)>> {
        let Some(remote) = self.service() else { return Ok(None) };
        step.doing(format!("on {}", remote.address()));
        let mut log = Log::create(&self.logs, &action.name, step)?;
        let mut printed = |bytes: &[u8]| log.take(bytes);
        let mut here = |probe: &Action| self.run_probe(probe, step);
        let launcher = self.launcher.as_ref();
        let executed = remote.execute(&self.store, action, launcher, &mut printed, &mut here);
        log.end_line();
        let executed = executed.map_err(|error| match error.kind {
            crate::error::Kind::Build => error.log(log.tail()),
            _ => error,
        })?;
        let Some(Executed { mut result, is_cached }) = executed else { return Ok(None) };
        result.log = Some(self.store.put_file(log.path())?);
        Ok(Some((result, if is_cached { Outcome::Fetched } else { Outcome::Executed })))
    }

    /// The result here of an action that looks around.
    fn run_probe(&self, probe: &Action, step: &Step) -> Result<ActionResult> {
        let key = probe.digest();
        if let Some(known) = self.store.recall(&key).filter(|known| known.origin.is_none()) {
            return Ok(known);
        }
        let result = self.execute(probe, step)?;
        self.store.remember(&key, &result)?;
        Ok(result)
    }
}
