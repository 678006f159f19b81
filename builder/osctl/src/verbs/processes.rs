//! `osctl ps`: the processes of the node.

use super::node_state::seconds;
use super::note;
use super::output::Output;
use crate::cli::ListForm;
use crate::connection::Connection;
use crate::error::{Result, printable};
use osbuild_cosi::v1::{HostProcess, ListProcessesRequest, ListProcessesResponse};
use serde_json::json;

/// The processes.
pub async fn show(connection: &Connection, form: ListForm) -> Result<Output> {
    let answer = connection.inspect().list_processes(ListProcessesRequest {}).await?;
    let ListProcessesResponse { processes, left_out } = answer.into_inner();
    if left_out > 0 {
        note(&format!("{left_out} more processes are left out, of the pods with the most"));
    }
    Ok(match form {
        ListForm::Table => Output::Table(rows(&processes)),
        ListForm::Json => Output::Json(json!(processes)),
    })
}

/// The processes by their names, without their command lines.
pub async fn names(connection: &Connection) -> Result<Output> {
    let answer = connection.inspect().list_processes(ListProcessesRequest {}).await?;
    let processes = answer.into_inner().processes.into_iter().map(|process| {
        // A thread of the kernel has no command line.
        let command = if process.command.is_empty() { String::new() } else { process.name.clone() };
        HostProcess { command, ..process }
    });
    Ok(Output::Table(rows(&processes.collect::<Vec<_>>())))
}

fn rows(processes: &[HostProcess]) -> Vec<Vec<String>> {
    let titles = ["PID", "PARENT", "USER", "STATE", "MEMORY", "CPU", "POD", "COMMAND"];
    let rows = processes.iter().map(|process| {
        // A thread of the kernel has no command line.
        let command = match process.command.is_empty() {
            true => format!("[{}]", process.name),
            false => process.command.clone(),
        };
        vec![
            process.pid.to_string(),
            process.parent.to_string(),
            process.user.to_string(),
            printable(&process.state),
            mebibytes(process.memory_bytes),
            seconds(process.processor_milliseconds),
            printable(&process.pod),
            printable(&command),
        ]
    });
    std::iter::once(titles.map(str::to_owned).to_vec()).chain(rows).collect()
}

/// The memory in mebibytes, with one decimal.
pub fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn a_process_is_a_line() {
        let kernel = HostProcess {
            pid: 2,
            name: "kthreadd".into(),
            state: "S".into(),
            ..HostProcess::default()
        };
        let dhcp = HostProcess {
            pid: 97,
            parent: 80,
            name: "dhcp".into(),
            command: "/dhcp\u{1b}".into(),
            state: "R".into(),
            user: 0,
            memory_bytes: 3 << 19,
            processor_milliseconds: 1_250,
            started_milliseconds: 5_000,
            pod: "kube-system/dhcp-edge".into(),
        };
        assert_eq!(
            Table::with(&rows(&[kernel, dhcp])).1,
            [
                "PID  PARENT  USER  STATE  MEMORY   CPU    POD                    COMMAND",
                "2    0       0     S      0.0 MiB  0.0 s                         [kthreadd]",
                "97   80      0     R      1.5 MiB  1.2 s  kube-system/dhcp-edge  /dhcp\\u{1b}",
            ]
        );
    }
}
