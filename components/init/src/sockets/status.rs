//! The state of the node, as the `admin` socket's `status` reports it.

use osbuild_protocol::{NodeStatus, ProcessState, ProcessStatus, Slots};

use crate::node::Node;
use crate::process::{Process, State};
use crate::slot;
use crate::uptime::uptime;

/// The state of the node now.
pub fn of(node: &Node) -> NodeStatus {
    NodeStatus {
        uptime: uptime(),
        host_name: node.host_name.clone(),
        node_name: node.node_name.clone(),
        ready: node.ready,
        secure_boot: node.secure_boot.word().to_owned(),
        watchdog: node.watchdog.word().to_owned(),
        slots: slot::status(node).unwrap_or_else(|failure| Slots::Unreadable(failure.to_string())),
        addresses: node.addresses.clone(),
        processes: node.processes.iter().map(process).collect(),
    }
}

fn process(process: &Process) -> ProcessStatus {
    let state = match process.state {
        State::Running { pid, since } => {
            ProcessState::Running { pid: pid.as_raw_nonzero().get(), since }
        }
        State::Waiting { .. } => ProcessState::Failed { times: process.backoff.failures() },
        State::Ended => ProcessState::Ended,
    };
    ProcessStatus { name: process.name.to_owned(), state }
}
