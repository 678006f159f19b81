//! Shows the [summary](crate::summary) of the node on its consoles.

use std::time::Duration;

use osbuild_protocol::{ClusterState, Problem, Readiness, Single};
use rustix::time::{ClockId, clock_gettime};
use x509_cert::der::DateTime;

use super::{Dispatcher, Life, Program};
use crate::console_command::HINT;
use crate::host::host_name;
use crate::host::registration::node_object::Found;
use crate::processes::process::{Process, State};
use crate::summary::{self, Cluster, Servers, Summary, observed};
use crate::uptime::uptime;

/// The name of its lines.
const STATUS: &str = "status";
/// The name of the lines of the message above it.
const MOTD: &str = "motd";

impl Dispatcher {
    /// Looks at the node, and shows it if that is due.
    pub(super) fn on_summary_due(&mut self) {
        let (summary, now) = (self.summary(), uptime());
        let (problems, motd) = (summary.problems(), self.settings.motd());
        self.cluster_report.on_problems(&problems, now);
        if self.pace.shows(&motd, &problems, now) {
            for line in motd {
                self.console.show(MOTD, line);
            }
            for line in summary.lines(&problems, &self.last_errors.texts(now)) {
                self.console.show(STATUS, line);
            }
            if self.keyboards.are_read() && problems.iter().any(summary::Problem::is_of_network) {
                self.console.show(STATUS, HINT);
            }
        }
    }

    /// The problems of the node, for clients.
    pub(super) fn problems(&self) -> Vec<Problem> {
        self.summary().problems().iter().map(summary::Problem::for_clients).collect()
    }

    /// When to show the cluster the problems of the node, since boot: once a child has begun to ask
    /// whether the node is Ready.
    pub(super) fn cluster_report_due(&self) -> Option<Duration> {
        let is_asked = self.processes.get(Program::Cluster).is_some();
        self.cluster_report.deadline().filter(|_| is_asked)
    }

    /// Has a child show them.
    pub(super) fn report_to_cluster(&mut self) {
        let problems = self.summary().problems();
        let lines = self.cluster_report.on_asking(&problems, uptime());
        if let Err(failure) = self.run_for_node(Program::NodeCondition, &lines) {
            self.on_cluster_report(&failure.to_string());
        }
    }

    /// The child has ended with this report.
    pub(super) fn on_cluster_report(&mut self, report: &str) {
        let (found, report) = Found::split(report);
        if let Some(found) = found {
            self.settings.registration_mut().on_looked(found, uptime());
        }
        if let Some(failure) = self.cluster_report.on_report(&report) {
            self.console.say(Program::NodeCondition.name(), failure);
        }
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
            unmet: self.unmet(),
            room: self.room.left(),
        }
    }

    /// The settings that are not in effect although they shall be, each with the reason.
    fn unmet(&self) -> Vec<(String, String)> {
        let settings = self.settings.observe(uptime()).settings.into_iter();
        let unmet = settings.filter(|one| !one.error.is_empty());
        unmet.map(|one| (one.name.to_string(), one.error)).collect()
    }

    fn servers(&self, single: Single) -> Servers {
        let (names, source) = self.settings.in_effect(single);
        Servers { names: names.to_owned(), source }
    }

    /// The node's own knowledge of itself in its cluster, for clients; none if it joins none.
    pub(super) fn cluster_state(&self) -> Option<ClusterState> {
        let readiness = match self.cluster() {
            Cluster::None => return None,
            Cluster::Unknown => Readiness::Unknown,
            Cluster::Ready => Readiness::Ready,
            Cluster::NotReady(reason) => Readiness::NotReady(reason),
        };
        let certificate_until = self.cluster_report.certificate_until();
        Some(ClusterState { certificate_until, readiness })
    }

    fn cluster(&self) -> Cluster {
        let was_ready = self.cluster_report.was_ready();
        let reason = match was_ready {
            true => self.cluster_report.not_ready(),
            false => self.last_errors.cluster(),
        };
        match (self.node_name.joins(), reason) {
            (false, _) => Cluster::None,
            (true, None) if was_ready => Cluster::Ready,
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
    let since = Duration::from_secs(seconds.try_into().unwrap_or_default());
    DateTime::from_unix_duration(since)
        .map_or_else(|_| "unknown".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::on_a_node;
    use super::*;

    use osbuild_protocol::Setting;
    use osbuild_ranks::Source;
    use rustix::process::{WaitOptions, waitpid};

    use crate::daemons::node_name::Action;
    use crate::processes::process::Launch;

    /// A node that the cluster reports as Ready, after it has not for a reason.
    fn ready_in_cluster(node: &mut Dispatcher) {
        node.ready = Some(uptime());
        node.node_name.on_started(true);
        node.last_errors.on_line(Program::Cluster, "not Ready: refused", uptime());
        assert_eq!(node.cluster(), Cluster::NotReady("refused".to_owned()));
        end_cluster(node);
        assert_eq!(node.cluster(), Cluster::Ready);
    }

    /// The child that waits until the cluster reports the node as Ready ends.
    fn end_cluster(node: &mut Dispatcher) {
        let launch = Launch::new(vec!["/bin/true".to_owned()]);
        node.run_as(Program::Cluster, launch).unwrap();
        let pid = node.processes.get(Program::Cluster).and_then(Process::pid).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        let (program, exit) = node.processes.on_exit(pid, status, uptime()).unwrap();
        node.on_exit(program, exit);
    }

    #[test]
    fn a_node_whose_labels_change_stays_ready() {
        on_a_node(|node| {
            ready_in_cluster(node);
            node.run_again(Program::Cluster);
            assert_eq!(node.cluster(), Cluster::Ready);
            node.on_cluster_report("not Ready: no CNI\n");
            assert_eq!(node.cluster(), Cluster::NotReady("no CNI".to_owned()));
        });
    }

    #[test]
    fn a_node_that_moves_to_another_cluster_is_asked_about_again() {
        on_a_node(|node| {
            ready_in_cluster(node);
            let line = "cluster-join server=https://b ca=MIIB token=abcdef.0123456789abcdef";
            let Ok(Setting::ClusterJoin(join)) = Setting::parse(line) else { panic!("{line}") };
            node.settings.cluster_mut().set(Source::Api, Some(join), uptime());
            std::fs::create_dir_all("/run/osbuild/kubelet").unwrap();
            node.settings.cluster_mut().ask().unwrap();
            node.on_kubelet_config();
            assert_eq!(node.cluster(), Cluster::Unknown);
            node.follow_cluster();
            assert_eq!(node.processes.due(uptime()), [Program::Cluster]);
        });
    }

    #[test]
    fn a_node_that_joins_again_is_asked_about_again() {
        on_a_node(|node| {
            ready_in_cluster(node);
            node.follow_cluster();
            assert!(node.processes.is_done(Program::Cluster));
            node.carry_out_name(vec![Action::Forget]);
            node.node_name.on_started(false);
            node.follow_cluster();
            assert!(node.processes.is_done(Program::Cluster), "it is in no cluster");
            node.node_name.on_started(true);
            assert_eq!(node.cluster(), Cluster::Unknown);
            node.follow_cluster();
            assert_eq!(node.processes.due(uptime()), [Program::Cluster]);
            end_cluster(node);
            assert_eq!(node.cluster(), Cluster::Ready);
        });
    }
}
