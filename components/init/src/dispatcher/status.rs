//! The state of the node, as the `admin` socket's `status` reports it.

use osbuild_failure::Outcome;
use osbuild_protocol::{NodeStatus, ProcessState, ProcessStatus, Slots};

use super::{Dispatcher, Life};
use crate::host::host_name;
use crate::processes::process::{Process, State};
use crate::uptime::uptime;

impl Dispatcher {
    pub(super) fn status(&self) -> NodeStatus {
        let lasting = |process: &&Process| !matches!(process.program.life(), Life::Task { .. });
        let slots = self.slots_status();
        NodeStatus {
            uptime: uptime(),
            host_name: host_name::observe(),
            node_name: self.node_name.name().to_owned(),
            ready: self.ready,
            secure_boot: self.facts.secure_boot().word().to_owned(),
            watchdog: self.watchdog.word().to_owned(),
            slots: slots.unwrap_or_else(|failure| Slots::Unreadable(failure.to_string())),
            addresses: self.addresses.iter().cloned().collect(),
            processes: self.processes.iter().filter(lasting).map(status).collect(),
        }
    }

    pub(super) fn slots_status(&self) -> Outcome<Slots> {
        self.facts.boot_source.status(|held| self.reach.is_outage(held))
    }
}

fn status(process: &Process) -> ProcessStatus {
    let state = match process.state {
        State::Running { pid, since } => {
            ProcessState::Running { pid: pid.as_raw_nonzero().get(), since }
        }
        State::Waiting { .. } => ProcessState::Failed { times: process.backoff.failures() },
        State::Ended => ProcessState::Ended,
    };
    ProcessStatus { name: process.program.name().to_owned(), state }
}
