//! Shows the [summary](crate::summary) of the node on its consoles.

use osbuild_protocol::{Problem, Single};
use rustix::time::{ClockId, clock_gettime};
use x509_cert::der::DateTime;

use super::{Dispatcher, Life, Program};
use crate::host::host_name;
use crate::processes::process::{Process, State};
use crate::summary::{Cluster, Servers, Summary, observed};
use crate::uptime::uptime;

/// The name of its lines.
const STATUS: &str = "status";

impl Dispatcher {
    /// Looks at the node, and shows it if that is due.
    pub(super) fn on_summary_due(&mut self) {
        let (summary, now) = (self.summary(), uptime());
        let problems = summary.problems();
        if self.pace.shows(&problems, now) {
            for line in summary.lines(&problems, &self.last_errors.texts(now)) {
                self.console.show(STATUS, line);
            }
        }
    }

    /// The problems of the node, for clients.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let found = self.summary().problems().into_iter();
        found.map(|problem| Problem { id: problem.kind.id(), text: problem.text }).collect()
    }

    fn summary(&self) -> Summary {
        let slot = self.facts.boot_source.slot();
        // The kubelet's name is chosen when it starts.
        let name = Some(self.node_name.name()).filter(|name| !name.is_empty());
        let network: Vec<_> = self.settings.network().in_effect().collect();
        let failing = self.processes.iter().filter(|one| one.program.life() == Life::Daemon);
        Summary {
            uptime: uptime(),
            ready: self.ready,
            node_name: name.map_or_else(host_name::observe, str::to_owned),
            kubelet_runs: self.processes.is_running(Program::Kubelet),
            addresses: self.addresses.iter().cloned().collect(),
            links: observed::links(&network),
            gateways: observed::gateways(),
            name_servers: self.servers(Single::NameServers),
            time_servers: self.servers(Single::TimeServers),
            time: time(),
            confirmed_by: self.clock.confirmed_by().to_owned(),
            cluster: self.cluster(),
            failing: failing.map(|one| (one.program.name(), failures(one))).collect(),
            slot: slot.zip(self.facts.boot_source.reason().map(str::to_owned)),
            passed_over: self.facts.boot_source.has_passed_over(),
            memory: observed::memory(),
            room: self.room.left(),
        }
    }

    fn servers(&self, single: Single) -> Servers {
        let (names, source) = self.settings.in_effect(single);
        Servers { names: names.to_owned(), source }
    }

    fn cluster(&self) -> Cluster {
        let is_ready = self.processes.is_done(Program::Cluster);
        match (self.node_name.joins(), self.last_errors.cluster()) {
            (false, _) => Cluster::None,
            (true, _) if is_ready => Cluster::Ready,
            (true, None) => Cluster::Unknown,
            (true, Some(reason)) => Cluster::NotReady(reason.to_owned()),
        }
    }
}

/// How often the process has failed in a row.
fn failures(process: &Process) -> u32 {
    match process.state {
        State::Running { since, .. } => {
            process.backoff.failures_while_it_runs(uptime().saturating_sub(since))
        }
        _ => process.backoff.failures(),
    }
}

/// The time of day, in UTC.
fn time() -> String {
    let seconds = clock_gettime(ClockId::Realtime).tv_sec;
    let since = std::time::Duration::from_secs(seconds.try_into().unwrap_or_default());
    DateTime::from_unix_duration(since)
        .map_or_else(|_| "unknown".to_owned(), |time| time.to_string())
}
