//! `ProcessStatuses.osbuild`: the daemons and the jobs of `init`.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{column, names};
use osbuild_cosi::v1::ProcessStatusSpec;
use osbuild_protocol::{NodeStatus, ProcessState, ProcessStatus};

pub const TYPE: ObservedType = ObservedType {
    names: names("ProcessStatuses", "ProcessStatus"),
    columns: &[
        column("State", "{.state}"),
        column("PID", "{.pid}"),
        column("Failures", "{.failures}"),
    ],
    max_count: super::FEW,
};

/// The specs.
pub fn rows(status: &NodeStatus) -> Rows<ProcessStatusSpec> {
    let mut rows = Rows::at_most(TYPE.max_count);
    for ProcessStatus { name, state } in &status.processes {
        rows.insert(0, name.clone(), spec(state));
    }
    rows
}

fn spec(state: &ProcessState) -> ProcessStatusSpec {
    let of = |state: &str| ProcessStatusSpec { state: state.to_owned(), ..Default::default() };
    match *state {
        ProcessState::Running { pid, since } => {
            let since_milliseconds = since.as_millis().try_into().unwrap_or(u64::MAX);
            ProcessStatusSpec { pid, since_milliseconds, ..of("running") }
        }
        ProcessState::Failed { times } => ProcessStatusSpec { failures: times, ..of("failed") },
        ProcessState::Ended => of("ended"),
    }
}
