//! The state of the node, as the `admin` socket's `status` reports it.

use osbuild_protocol::{NodeStatus, ProcessState, ProcessStatus, Security, Slots};

use super::{Dispatcher, Life};
use crate::host::host_name;
use crate::processes::process::{Process, State};
use crate::slot::content::Held;
use crate::uptime::uptime;

impl Dispatcher {
    pub(super) fn status(&self, slots: Slots) -> NodeStatus {
        let lasting = |process: &&Process| !matches!(process.program.life(), Life::Task { .. });
        NodeStatus {
            uptime: uptime(),
            host_name: host_name::observe(),
            node_name: self.node_name.name().to_owned(),
            ready: self.ready,
            security: self.security(),
            watchdog: self.watchdog.word().to_owned(),
            slots,
            updater: self.last_report.state(|client| self.sockets.is_connected(client)),
            addresses: self.addresses.iter().cloned().collect(),
            processes: self.processes.iter().filter(lasting).map(status).collect(),
            problems: self.problems(),
            cni: self.node_plugins.cni().cloned(),
            storage_drivers: self.node_plugins.storage_drivers().cloned(),
            bpf_programs: self.node_plugins.bpf_programs().cloned(),
            runtime_clients: self.node_plugins.runtime_clients().cloned(),
        }
    }

    fn security(&self) -> Security {
        let found = self.facts.security();
        Security {
            secure_boot: found.secure_boot.word().to_owned(),
            lockdown: found.lockdown,
            epoch: self.facts.command_line().security_epoch,
            certificates: found.certificates,
            api: self.served.clone(),
        }
    }

    /// The slots as they were read, with what is known of the other one's release.
    pub(super) fn with_outage(&self, mut slots: Slots) -> Slots {
        if let Slots::Known(status) = &mut slots {
            let other = status.other.as_ref();
            let held = other.and_then(|other| Held::of(&other.name, &other.contents));
            status.is_outage = held.is_some_and(|held| self.reach.is_outage(&held));
        }
        slots
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
