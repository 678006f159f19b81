//! `osctl status`, `restart`, `update`, `reboot`, `rollback`, `reset` and `power-off`: the node as
//! a whole.

use super::nodes::connect;
use super::note;
use super::output::Output;
use crate::cli::{Daemon, ListForm};
use crate::connection::Connection;
use crate::error::{Error, Result, printable};
use crate::question;
use crate::selection::Selection;
use crate::table::Table;
use osbuild_cosi::v1::process::State;
use osbuild_cosi::v1::{
    CheckForReleaseRequest, GetStatusRequest, GetStatusResponse, PowerOffRequest, Process,
    RebootRequest, ResetRequest, RestartContainerdRequest, RestartKubeletRequest, RollBackRequest,
    Slot,
};
use serde_json::{Value, json};

/// The state of the node.
pub async fn show(connection: &Connection, form: ListForm) -> Result<Output> {
    let status = connection.node().get_status(GetStatusRequest {}).await?.into_inner();
    Ok(match form {
        ListForm::Table => Output::Lines(lines(&status)),
        ListForm::Json => Output::Json(json(&status)),
    })
}

/// Has a daemon start again.
pub async fn restart(connection: &Connection, daemon: Daemon) -> Result<()> {
    let mut node = connection.node();
    match daemon {
        Daemon::Kubelet => {
            node.restart_kubelet(RestartKubeletRequest {}).await?;
            note("the kubelet is restarted");
        }
        Daemon::Containerd => {
            node.restart_containerd(RestartContainerdRequest {}).await?;
            note("containerd is restarted");
        }
    }
    Ok(())
}

/// Reboots the node.
pub async fn reboot(connection: &Connection) -> Result<()> {
    connection.node().reboot(RebootRequest {}).await?;
    note("the node ends its pods, and reboots");
    Ok(())
}

/// Has the node check for a release.
pub async fn check_for_release(connection: &Connection) -> Result<()> {
    connection.node().check_for_release(CheckForReleaseRequest {}).await?;
    note("the node checks for a release: osctl logs updater");
    Ok(())
}

/// Reboots the node into its other slot.
pub async fn roll_back(connection: &Connection) -> Result<()> {
    connection.node().roll_back(RollBackRequest {}).await?;
    note("the node ends its pods, and reboots into its other slot");
    Ok(())
}

/// The losses that a reset causes, for the question and the error.
const LOSS: &str = "the node loses its settings, its certificates, its place in its cluster, and \
                    all images, volumes and logs";

/// Reboots the node and has it start as if it had never run. Asks before that, unless `is_sure`.
/// It connects after that, as nodes close a connection without a call.
pub async fn reset(selection: &Selection, is_sure: bool) -> Result<()> {
    if !is_sure {
        let node = selection.known()?.get(selection.only()?.as_deref())?;
        let answer = question::ask(LOSS, &format!("Reset the node at {}?", node.address))?;
        let answer = answer.ok_or_else(|| {
            Error::usage("nobody can be asked whether to reset the node")
                .cause(LOSS)
                .hint("`--yes`")
        })?;
        if !answer {
            return Err(Error::failed("the node is not reset"));
        }
    }
    connect(selection).await?.node().reset(ResetRequest {}).await?;
    note("the node ends its pods, reboots, and starts as if it had never run");
    note("it serves the node API with a new fingerprint: `osctl node remove`, then `node add`");
    Ok(())
}

/// Powers the node off.
pub async fn power_off(connection: &Connection) -> Result<()> {
    connection.node().power_off(PowerOffRequest {}).await?;
    note("the node ends its pods, and powers off");
    Ok(())
}

/// The status as data, with words for the states of processes.
fn json(status: &GetStatusResponse) -> Value {
    let mut json = json!(status);
    for (index, process) in status.processes.iter().enumerate() {
        json["processes"][index]["state"] = match process.state() {
            State::Running => "running",
            State::Failed => "failed",
            State::Ended => "ended",
        }
        .into();
    }
    json
}

fn lines(status: &GetStatusResponse) -> Vec<String> {
    let ready = match status.ready_milliseconds {
        Some(time) => format!("after {}", seconds(time)),
        None => "no".to_owned(),
    };
    let mut rows = vec![
        ["node".to_owned(), status.node_name.clone()],
        ["host name".to_owned(), status.host_name.clone()],
        ["ready".to_owned(), ready],
        ["up".to_owned(), seconds(status.uptime_milliseconds)],
        ["secure boot".to_owned(), status.secure_boot.clone()],
        ["watchdog".to_owned(), status.watchdog.clone()],
    ];
    if !status.api_certificate.is_empty() {
        rows.push(["certificate".to_owned(), status.api_certificate.clone()]);
    }
    rows.extend(status.problems.iter().map(|problem| ["PROBLEM".to_owned(), problem.clone()]));
    rows.extend(status.addresses.iter().map(|address| ["address".to_owned(), address.clone()]));
    let running = ["running", "other"].into_iter().zip(&status.slots);
    rows.extend(running.map(|(which, slot)| [format!("{which} slot"), words(slot)]));
    if !status.slots_error.is_empty() {
        rows.push(["slots".to_owned(), format!("unknown: {}", status.slots_error)]);
    }
    rows.extend(status.processes.iter().map(|process| [process.name.clone(), state(process)]));
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    Table::with(&rows).1
}

fn words(Slot { name, contents, state, .. }: &Slot) -> String {
    format!("{name}: {contents}, {state}")
}

fn state(process: &Process) -> String {
    match process.state() {
        State::Running => {
            format!("running since {}, pid {}", seconds(process.since_milliseconds), process.pid)
        }
        State::Failed => format!("failed {} times in a row", process.failures),
        State::Ended => "ended".to_owned(),
    }
}

/// The time in seconds, with one decimal.
pub fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_a_line_for_each_fact() {
        let slot = |name: &str, state: &str| Slot {
            name: name.into(),
            contents: "version 1.35.8, sha256 35c42810ed99".into(),
            version: "1.35.8".into(),
            state: state.into(),
        };
        let status = GetStatusResponse {
            host_name: "edge".into(),
            node_name: "edge\u{1b}".into(),
            uptime_milliseconds: 61_250,
            ready_milliseconds: Some(12_513),
            secure_boot: "on".into(),
            watchdog: "none".into(),
            addresses: vec!["10.0.2.15/24 on eth0".into()],
            slots: vec![slot("SLOT-A", "good"), slot("SLOT-B", "not to be booted")],
            slots_error: String::new(),
            processes: vec![
                Process {
                    name: "kubelet".into(),
                    state: State::Running.into(),
                    pid: 7,
                    since_milliseconds: 4_805,
                    failures: 0,
                },
                Process { name: "images".into(), ..Process::default() },
            ],
            problems: vec!["the gateway 10.0.2.99 on eth0 does not answer".into()],
            api_certificate: "sha256:0a0b".into(),
        };
        assert_eq!(
            lines(&status),
            [
                "node          edge\\u{1b}",
                "host name     edge",
                "ready         after 12.5 s",
                "up            61.2 s",
                "secure boot   on",
                "watchdog      none",
                "certificate   sha256:0a0b",
                "PROBLEM       the gateway 10.0.2.99 on eth0 does not answer",
                "address       10.0.2.15/24 on eth0",
                "running slot  SLOT-A: version 1.35.8, sha256 35c42810ed99, good",
                "other slot    SLOT-B: version 1.35.8, sha256 35c42810ed99, not to be booted",
                "kubelet       running since 4.8 s, pid 7",
                "images        ended",
            ]
        );
        let json = json(&status);
        assert_eq!(json["readyMilliseconds"], 12_513);
        assert_eq!(json["processes"][0]["state"], "running");
    }
}
