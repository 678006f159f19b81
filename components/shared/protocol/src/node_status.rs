//! The state of the node, as the `admin` socket's `status` reports it: `KEY VALUE` lines.

use std::fmt::Write;
use std::time::Duration;

use crate::fields::printable;
use crate::{BpfPrograms, CniState, RuntimeClients, Security, Slots, StorageDrivers, UpdaterState};

/// The state of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// How long the node has been running.
    pub uptime: Duration,
    /// The host name.
    pub host_name: String,
    /// The kubelet's name of the node.
    pub node_name: String,
    /// When the node was ready, since boot; none if it is not.
    pub ready: Option<Duration>,
    /// Its security state.
    pub security: Security,
    /// Whether a hardware watchdog runs: `on` or `none`.
    pub watchdog: String,
    /// The slots.
    pub slots: Slots,
    /// The state of the updater.
    pub updater: UpdaterState,
    /// The addresses of all links, each `ADDRESS/PREFIX-LENGTH on LINK`.
    pub addresses: Vec<String>,
    /// The daemons and jobs.
    pub processes: Vec<ProcessStatus>,
    /// The problems of the node, the most urgent first.
    pub problems: Vec<Problem>,
    /// The network configuration of pods; none if it was not looked at.
    pub cni: Option<CniState>,
    /// The storage drivers of pods; none if they were not looked at.
    pub storage_drivers: Option<StorageDrivers>,
    /// The BPF programs of the kernel; none if they were not looked at.
    pub bpf_programs: Option<BpfPrograms>,
    /// The clients of the container runtime; none if they were not looked at.
    pub runtime_clients: Option<RuntimeClients>,
}

/// A problem of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its kind, which no two problems share: a word such as `gateway` or `daemon-kubelet`.
    pub id: String,
    /// The problem and its cause, for people.
    pub text: String,
}

/// A daemon or a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ProcessState,
}

/// The state of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Running {
        /// Its process id.
        pid: i32,
        /// When it was started, since boot.
        since: Duration,
    },
    /// It failed, and waits to be started again.
    Failed {
        /// How often it failed in a row.
        times: u32,
    },
    /// It ended, as a job does.
    Ended,
}

impl Problem {
    /// The problem as one line: its kind, a space, and its text.
    pub fn line(&self) -> String {
        format!("{} {}", self.id, printable(&self.text))
    }

    /// Reads such a line.
    pub fn parse(line: &str) -> Option<Problem> {
        let (id, text) = line.split_once(' ')?;
        Some(Problem { id: id.to_owned(), text: text.to_owned() })
    }
}

impl NodeStatus {
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "uptime {}", seconds(self.uptime));
        let _ = writeln!(text, "hostname {}", printable(&self.host_name));
        let _ = writeln!(text, "node-name {}", printable(&self.node_name));
        let ready = self.ready.map_or("no".to_owned(), seconds);
        let _ = writeln!(text, "ready {ready}");
        text.push_str(&self.security.encode());
        let _ = writeln!(text, "watchdog {}", printable(&self.watchdog));
        text.push_str(&self.slots.encode());
        text.push_str(&self.updater.encode());
        for address in &self.addresses {
            let _ = writeln!(text, "address {}", printable(address));
        }
        for problem in &self.problems {
            let _ = writeln!(text, "problem {}", problem.line());
        }
        if let Some(cni) = &self.cni {
            let _ = writeln!(text, "cni {}", cni.encode());
        }
        if let Some(drivers) = &self.storage_drivers {
            text.push_str(&drivers.encode());
        }
        if let Some(programs) = &self.bpf_programs {
            text.push_str(&programs.encode());
        }
        if let Some(clients) = &self.runtime_clients {
            text.push_str(&clients.encode());
        }
        for ProcessStatus { name, state } in &self.processes {
            let _ = match state {
                ProcessState::Running { pid, since } => {
                    writeln!(text, "{name} running pid {pid} since {}", seconds(*since))
                }
                ProcessState::Failed { times } => {
                    writeln!(text, "{name} failed {times} times in a row")
                }
                ProcessState::Ended => writeln!(text, "{name} ended"),
            };
        }
        text
    }

    pub(crate) fn decode(lines: &[String]) -> Result<Self, String> {
        let line =
            |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        let text = |key: &str| {
            line(key).map(str::to_owned).ok_or_else(|| format!("there is no line `{key}`"))
        };
        let uptime = line("uptime").and_then(duration).ok_or("there is no line `uptime`")?;
        let addresses = lines.iter().filter_map(|line| line.strip_prefix("address "));
        let problems =
            lines.iter().filter_map(|line| Problem::parse(line.strip_prefix("problem ")?));
        Ok(Self {
            uptime,
            host_name: text("hostname")?,
            node_name: text("node-name")?,
            ready: line("ready").and_then(duration),
            security: Security::decode(lines)?,
            watchdog: text("watchdog")?,
            slots: Slots::decode(lines)?,
            updater: line("updater").map_or(UpdaterState::Unreported, UpdaterState::decode),
            addresses: addresses.map(str::to_owned).collect(),
            processes: lines.iter().filter_map(|line| process(line)).collect(),
            problems: problems.collect(),
            cni: line("cni").and_then(CniState::decode),
            storage_drivers: StorageDrivers::decode(lines.iter().map(String::as_str)),
            bpf_programs: BpfPrograms::decode(lines.iter().map(String::as_str)),
            runtime_clients: RuntimeClients::decode(lines.iter().map(String::as_str)),
        })
    }
}

/// Reads the line of a process. Lines of other keys, and of states that this release does not know,
/// are none.
fn process(line: &str) -> Option<ProcessStatus> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, state) = match words.as_slice() {
        [name, "running", "pid", pid, "since", since] => {
            (name, ProcessState::Running { pid: pid.parse().ok()?, since: duration(since)? })
        }
        [name, "failed", times, "times", "in", "a", "row"] => {
            (name, ProcessState::Failed { times: times.parse().ok()? })
        }
        [name, "ended"] => (name, ProcessState::Ended),
        _ => return None,
    };
    const KEYS: [&str; 20] = [
        "hostname",
        "node-name",
        "secure-boot",
        "lockdown",
        "security-epoch",
        "firmware-certificate",
        "api-certificate",
        "watchdog",
        "slot",
        "slot-why",
        "address",
        "problem",
        "updater",
        "cni",
        "storage-driver",
        "storage-drivers",
        "bpf-program",
        "bpf-programs",
        "runtime-client",
        "runtime-clients",
    ];
    (!KEYS.contains(name)).then(|| ProcessStatus { name: (*name).to_owned(), state })
}

/// Seconds with three decimals.
fn seconds(time: Duration) -> String {
    format!("{}.{:03}", time.as_secs(), time.subsec_millis())
}

fn duration(text: &str) -> Option<Duration> {
    let (seconds, millis) = text.split_once('.')?;
    if millis.len() != 3 || !millis.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let millis = Duration::from_millis(millis.parse().ok()?);
    Duration::from_secs(seconds.parse().ok()?).checked_add(millis)
}
