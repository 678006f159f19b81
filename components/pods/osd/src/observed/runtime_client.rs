//! `RuntimeClients.osbuild`: the processes that are connected to the container runtime, as `init`
//! finds them. Only a process with the capability `SYS_PTRACE` may look at its connections.

use super::ObservedType;
use super::rows::Rows;
use crate::settings::{column, names};
use osbuild_cosi::v1::RuntimeClientSpec;
use osbuild_protocol::{ClientProcess, MAX_RUNTIME_CLIENTS, NodeStatus, RuntimeClient};

pub const TYPE: ObservedType = ObservedType {
    names: names("RuntimeClients", "RuntimeClient"),
    columns: &[
        column("Program", "{.program}"),
        column("Pod", "{.pod}"),
        column("Connections", "{.connections}"),
        column("Ended", "{.ended}"),
    ],
    max_count: MAX_RUNTIME_CLIENTS,
};

/// The specs.
///
/// # Errors
/// `init` has not looked, as it does after the first request, or could not.
pub fn rows(status: &NodeStatus) -> Result<Rows<RuntimeClientSpec>, String> {
    let found = status.runtime_clients.as_ref();
    let found = found.ok_or("containerd does not run, or init has not looked at its clients")?;
    let mut rows = Rows::at_most(TYPE.max_count);
    for client in &found.clients {
        // Another process may have the number of one that has ended.
        let suffix = if client.process.is_some() { "" } else { "-ended" };
        rows.insert(0, format!("{}{suffix}", client.pid), spec(client.clone()));
    }
    rows.left_out += found.left_out;
    Ok(rows)
}

fn spec(RuntimeClient { pid, connections, process }: RuntimeClient) -> RuntimeClientSpec {
    let ended = process.is_none();
    let ClientProcess { program, pod, cgroup, since } = process.unwrap_or_default();
    let since_milliseconds = since.as_millis().try_into().unwrap_or(u64::MAX);
    RuntimeClientSpec { pid, program, pod, cgroup, since_milliseconds, connections, ended }
}
