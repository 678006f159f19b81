//! The trial of a slot that has not been a good node before: the gate has to hold for a while, and
//! before a deadline.

use std::time::Duration;

use osbuild_abi::cmdline::{GATE_DEADLINE, value};
use osbuild_abi::console::SLOT_LATE;
use osbuild_abi::paths::INIT;
use osbuild_failure::{Explain, Outcome};

use crate::node::Node;
use crate::process::{Life, State};
use crate::reached;
use crate::shutdown::End;
use crate::slot;
use crate::uptime::uptime;

/// The name of the job and of the subcommand.
pub const NAME: &str = "trial";

/// Whether a task that waits for two minutes is a panic. The command line says that it is.
const HUNG_TASK_PANIC: &str = "/proc/sys/kernel/hung_task_panic";

/// How long after a slot could not be marked as a good one that is tried again.
const AGAIN: Duration = Duration::from_secs(600);

/// Sets the deadline, if the slot that runs is on trial and there is another one to go back to.
/// Without one a reboot helps nobody: the node stays, and may still become a good one.
pub fn begin(node: &mut Node) -> Outcome {
    node.on_trial = slot::is_on_trial(node)?;
    reached::begin(node);
    if !node.on_trial {
        return bear_hung_tasks();
    }
    let seconds = value(&node.command_line, GATE_DEADLINE).and_then(|text| text.parse().ok());
    node.deadline =
        seconds.filter(|_| slot::has_other(node).unwrap_or(false)).map(Duration::from_secs);
    Ok(())
}

/// Starts the job that ends well when the gate has held for long enough.
pub fn hold(node: &mut Node) {
    if !node.on_trial {
        return;
    }
    if let Err(failure) =
        node.run(NAME, Life::Job, |node_name| [INIT, NAME, node_name].map(str::to_owned).to_vec())
    {
        node.console.say(NAME, failure);
    }
}

/// Notes that the gate has held: the slot is a good one, unless it lacks an address that the slot
/// before had. A disk that does not take that may do so the next time.
pub fn passed(node: &mut Node) {
    if reached::is_missing(node) {
        return;
    }
    let _cover = node.watchdog.cover();
    node.deadline = None;
    for failure in [slot::mark_good(node), bear_hung_tasks()].into_iter().filter_map(Outcome::err) {
        node.console.say(NAME, failure);
    }
    node.on_trial = node.slot.is_some() && slot::is_on_trial(node).unwrap_or(true);
    if !node.on_trial {
        reached::passed(node);
    }
    if let (true, Some(trial)) = (node.on_trial, node.process(NAME)) {
        trial.state = State::Waiting { until: uptime() + AGAIN };
    }
}

/// From now on a task that waits for long is only reported. On trial it restarts the node, for the
/// other slot; but a good node must not restart because a volume is slow.
pub fn bear_hung_tasks() -> Outcome {
    std::fs::write(HUNG_TASK_PANIC, "0").explain(format_args!("set {HUNG_TASK_PANIC}"))
}

/// Goes back to the other slot when the deadline has passed.
pub fn watch(node: &mut Node) {
    if node.end.is_none() && node.deadline.is_some_and(|deadline| uptime() >= deadline) {
        node.deadline = None;
        reached::goes_back(node);
        let name = node.slot.as_ref().map_or("the slot that runs", |running| running.booted.slot);
        node.console
            .line(&format!("{SLOT_LATE}{name} in time: the node reboots for the other one"));
        node.end = Some(End::Reboot);
    }
}
