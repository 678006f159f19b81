//! The state that a node reports about itself: its name, its release, and whether it is ready.

use super::untrusted::clean;
use jiff::{SignedDuration, Timestamp};
use osbuild_cosi::v1::process::State;
use osbuild_cosi::v1::{GetStatusResponse, Process};
use serde_json::Value;

/// The facts in the first lines of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The kubelet's name of the node, or its host name.
    pub name: String,
    /// The addresses of its links, each `ADDRESS/PREFIX-LENGTH on LINK`.
    pub addresses: Vec<String>,
    /// The slot that runs, and its state. Empty if it is unknown.
    pub slot: String,
    /// The state of the slot. Empty if it is unknown.
    pub slot_state: String,
    /// The version of the release, which is that of Kubernetes unless its recipe has another.
    pub release: String,
    /// The release of the kernel. Empty if it is unknown.
    pub kernel: String,
    /// How long it has been running, in milliseconds.
    pub uptime_milliseconds: u64,
    /// Whether it was ready in this boot.
    pub is_ready: bool,
    /// The problems, each in words: a failed process, those that the node reports, no address, or
    /// an error of the slots.
    pub problems: Vec<String>,
    /// By how many seconds its clock is ahead of the one here, if that is known.
    pub clock_ahead_seconds: Option<i64>,
}

impl Facts {
    /// Takes the facts from a status and the spec of `KernelInfos.osbuild`, both read at `now`.
    pub fn of(status: &GetStatusResponse, kernel: Option<&Value>, now: Timestamp) -> Facts {
        let name = [&status.node_name, &status.host_name].into_iter().find(|name| !name.is_empty());
        let text = |name: &str| kernel.and_then(|spec| spec[name].as_str()).map(clean);
        let running = status.slots.first();
        Facts {
            name: name.map(|name| clean(name)).unwrap_or_default(),
            addresses: status.addresses.iter().map(|address| clean(address)).collect(),
            slot: running.map(|slot| clean(&slot.name)).unwrap_or_default(),
            slot_state: running.map(|slot| clean(&slot.state)).unwrap_or_default(),
            release: running.map(|slot| clean(&slot.version)).unwrap_or_default(),
            kernel: text("release").unwrap_or_default(),
            uptime_milliseconds: status.uptime_milliseconds,
            is_ready: status.ready_milliseconds.is_some(),
            problems: problems(status),
            clock_ahead_seconds: text("bootTime")
                .and_then(|time| time.parse().ok())
                .and_then(|boot| clock_ahead(boot, status.uptime_milliseconds, now)),
        }
    }
}

/// By how many seconds the node's clock is ahead: it was started at `boot` by its own clock of now.
fn clock_ahead(boot: Timestamp, uptime_milliseconds: u64, now: Timestamp) -> Option<i64> {
    let uptime = SignedDuration::from_millis(i64::try_from(uptime_milliseconds).ok()?);
    Some(boot.checked_add(uptime).ok()?.duration_since(now).as_secs())
}

fn problems(status: &GetStatusResponse) -> Vec<String> {
    let failed = status.processes.iter().filter(|process| process.state() == State::Failed);
    let mut problems: Vec<String> = failed
        .map(|Process { name, failures, .. }| clean(&format!("{name} failed {failures} times")))
        .collect();
    problems.extend(status.problems.iter().map(|problem| clean(problem)));
    // A node reports its own problems, unless its release is an older one.
    if status.addresses.is_empty() && status.problems.is_empty() {
        problems.push("no address".to_owned());
    }
    if !status.slots_error.is_empty() {
        problems.push(clean(&format!("slots: {}", status.slots_error)));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status() -> GetStatusResponse {
        GetStatusResponse {
            host_name: "edge\u{1b}".into(),
            uptime_milliseconds: 60_000,
            addresses: vec!["10.0.2.15/24 on eth0".into()],
            ..GetStatusResponse::default()
        }
    }

    #[test]
    fn the_clock_of_a_node_is_compared_with_the_one_here() {
        let now: Timestamp = "2026-11-27T10:01:00Z".parse().unwrap();
        let ahead = |boot: &str| {
            Facts::of(&status(), Some(&json!({ "bootTime": boot })), now).clock_ahead_seconds
        };
        assert_eq!(ahead("2026-11-27T10:00:00Z"), Some(0));
        assert_eq!(ahead("2026-11-27T11:00:00Z"), Some(3600));
        assert_eq!(ahead("1970-01-01T00:00:00Z"), Some(-1_795_773_600));
        assert_eq!(ahead("yesterday"), None);
        assert_eq!(Facts::of(&status(), None, now).clock_ahead_seconds, None);
        let forever = GetStatusResponse { uptime_milliseconds: u64::MAX, ..status() };
        let kernel = json!({ "bootTime": "2026-11-27T10:00:00Z" });
        assert_eq!(Facts::of(&forever, Some(&kernel), now).clock_ahead_seconds, None);
    }

    #[test]
    fn a_failing_daemon_is_a_problem() {
        let kubelet = Process {
            name: "kubelet".into(),
            state: State::Failed.into(),
            failures: 3,
            ..Process::default()
        };
        let status = GetStatusResponse {
            processes: vec![kubelet, Process::default()],
            addresses: vec![],
            ..status()
        };
        let facts = Facts::of(&status, None, Timestamp::UNIX_EPOCH);
        assert_eq!(facts.problems, ["kubelet failed 3 times", "no address"]);
        let silent = "no address: eth0 is switched off";
        let status = GetStatusResponse { problems: vec![silent.into()], ..status };
        let facts = Facts::of(&status, None, Timestamp::UNIX_EPOCH);
        assert_eq!(facts.problems, ["kubelet failed 3 times", silent]);
        assert_eq!((facts.name.as_str(), facts.is_ready), ("edge\\u{1b}", false));
    }
}
