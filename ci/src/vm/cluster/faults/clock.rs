//! A clock that somebody sets, or that a hypervisor moves.

use super::{AWAY, Faults};
use osbuild::error::Result;
use std::thread::sleep;

/// The steps, as `date` reads them. The certificates of the cluster are valid from its start, so
/// the clock first goes forward.
const FORWARD: &str = "date --set '1 hour'";
const BACK: &str = "date --set '1 hour ago'";

/// An hour forward and an hour back change nothing for long. After a step back the cluster holds
/// the renewals of the node's lease for old ones, and does not count on the node until the next
/// report of its status, which follows within five minutes.
pub fn jumps(faults: &mut Faults) -> Result<()> {
    faults.survives("a clock that jumps forward", |faults| {
        faults.as_root(FORWARD)?;
        faults.stays_ready("the node stays Ready while its clock jumps forward", AWAY)
    })?;
    faults.survives("a clock that jumps back", |faults| {
        faults.as_root(BACK)?;
        sleep(AWAY);
        Ok(())
    })
}
