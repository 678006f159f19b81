//! Starts programs, and decides what their exit leads to.

use std::time::Duration;

use osbuild_abi::console::{JOINED, READY, READY_WITHOUT_ADDRESS};
use osbuild_failure::Outcome;

use super::{Dispatcher, Life, Program};
use crate::daemons::containerd;
use crate::data::log_files;
use crate::disk_worker::Job;
use crate::host::environment::Daemon;
use crate::host::registration::node_object;
use crate::processes::process::{Exit, Launch, State};
use crate::slot::reached::Goal;
use crate::uptime::uptime;

impl Dispatcher {
    /// Starts a program that needs no arguments of a client. The kubelet starts once it is
    /// prepared.
    pub(super) fn run(&mut self, program: Program) -> Outcome {
        match program {
            Program::Kubelet => {
                self.prepare_kubelet();
                return Ok(());
            }
            Program::KubeletConfig => return self.run_kubelet_config(),
            Program::Cluster => return self.run_cluster(),
            _ => {}
        }
        let launch = self.launch(program);
        self.run_as(program, launch)?;
        if program == Program::Containerd {
            self.settings.environment_mut().on_started(Daemon::Containerd);
        }
        Ok(())
    }

    pub(super) fn run_as(&mut self, program: Program, launch: Launch) -> Outcome {
        let writer = &self.writer;
        let log = || match program.life() {
            Life::Daemon => log_files::start(writer, program.name()).ok(),
            Life::Job | Life::Task { .. } => None,
        };
        self.processes.start(program, launch, uptime(), log)
    }

    fn launch(&self, program: Program) -> Launch {
        let name = self.node_name.name();
        match program {
            Program::Containerd => containerd::launch(self.settings.environment().variables()),
            Program::Gate | Program::Trial => Launch::child(program, &[name]),
            Program::NodePlugins => {
                let containerd = self.processes.get(Program::Containerd);
                let pid = containerd.and_then(|process| match process.state {
                    State::Running { pid, .. } => Some(pid.as_raw_nonzero().to_string()),
                    State::Waiting { .. } | State::Ended => None,
                });
                let words: Vec<&str> = pid.iter().map(String::as_str).collect();
                Launch::child(program, &words)
            }
            _ => Launch::child(program, &[]),
        }
    }

    /// Runs a job once more, or for the first time.
    pub(super) fn run_again(&mut self, program: Program) {
        if let Some(process) = self.processes.get_mut(program) {
            process.run_again(uptime());
        } else if let Err(failure) = self.run(program) {
            self.console.say(program.name(), failure);
        }
    }

    /// Starts a program whose time has come.
    pub(super) fn start_again(&mut self, program: Program) {
        let Some(process) = self.processes.get_mut(program) else { return };
        if !process.is_due(uptime()) {
            return;
        }
        if self.end.is_some() && program.life() != Life::Daemon {
            // A job that was ended with the node is not needed any more.
            process.stop(uptime(), Duration::ZERO);
        } else if let Err(failure) = self.run(program) {
            self.console.say(program.name(), failure);
            // It may have failed before there was a process, as with a full `/run`.
            let process = self.processes.get_mut(program);
            if let Some(process) = process.filter(|process| process.is_due(uptime())) {
                process.back_off(uptime());
            }
        }
    }

    pub(super) fn on_exit(&mut self, program: Program, exit: Exit) {
        match program {
            Program::Containerd => self.settings.environment_mut().on_exited(Daemon::Containerd),
            Program::Kubelet => {
                self.settings.environment_mut().on_exited(Daemon::Kubelet);
                self.settings.kubelet_mut().on_exited();
                self.settings.cluster_mut().on_exited();
                self.settings.credential_providers_mut().on_exited();
            }
            _ => {}
        }
        match exit {
            Exit::AsAsked => {}
            Exit::Restarts(message) => {
                self.last_errors.on_line(program, &message, uptime());
                self.console.say(program.name(), &message);
                if program.life() == Life::Daemon {
                    let process = self.processes.get(program);
                    let times = process.map_or(0, |process| process.backoff.failures());
                    self.on_daemon_failed(program, times, &message);
                }
            }
            Exit::Report { text, .. } if program == Program::Health => self.on_health(&text),
            Exit::Report { text, .. } if program == Program::NodePlugins => {
                self.node_plugins.on_report(&text);
            }
            Exit::Report { text, .. } if program == Program::PodStates => {
                self.settings.pods_mut().on_states(&text, uptime());
            }
            Exit::Report { text, .. } if program == Program::NodeCondition => {
                self.on_cluster_report(&text);
            }
            Exit::Report { succeeded, text } if program == Program::NodeWatch => {
                self.settings.registration_mut().on_watched(succeeded, &text, uptime());
            }
            Exit::Report { text, .. } if let Program::Volume(number) = program => {
                self.settings.volumes_mut().on_report(number, &text, uptime());
            }
            Exit::Report { succeeded, text } if program == Program::Swap => {
                self.settings.swap_mut().on_report(succeeded, &text, uptime());
            }
            Exit::Report { succeeded, text } if program == Program::SystemImages => {
                self.settings.system_images_mut().on_report(succeeded, &text, uptime());
            }
            Exit::Report { succeeded, text } => self.on_update_job(succeeded, &text),
            Exit::Done if self.end.is_none() => self.on_done(program),
            Exit::Done => {}
        }
    }

    /// A job has succeeded.
    fn on_done(&mut self, program: Program) {
        // Name servers change at any time and a cluster may be away, so these are not part of the
        // boot. Files are moved aside at any time, too.
        let is_late = program == Program::Tidy && self.ready.is_some();
        if !matches!(program, Program::PodResolvers | Program::Cluster) && !is_late {
            self.print_phase(program.name());
        }
        match program {
            Program::Gate => self.on_ready(),
            Program::Trial => self.on_trial_held(),
            Program::Cluster => self.on_cluster_ready(),
            Program::KubeletConfig => self.on_kubelet_config(),
            _ => {}
        }
    }

    pub(super) fn on_killed(&mut self, program: Program) {
        let name = program.name();
        match program.life() {
            Life::Task { .. } if let Program::Volume(number) = program => {
                self.settings.volumes_mut().on_late(number);
            }
            Life::Task { .. } => {}
            _ if self.end.is_some() => {
                let text = format_args!("{name} does not end and is killed");
                self.console.say(crate::shutdown::NAME, text);
            }
            _ => self.console.say(name, "does not end and is killed"),
        }
    }

    /// The gate is open: the node is ready.
    fn on_ready(&mut self) {
        let now = uptime();
        self.ready = Some(now);
        let lacks = if self.addresses.is_empty() { READY_WITHOUT_ADDRESS } else { "" };
        self.console.line(&format!("{READY} {:.3}{lacks}", now.as_secs_f64()));
        self.ask(Job::ForgetFailedBoots);
        // Changes that are tried have shown nothing yet. Deadlines for both follow the try.
        if !self.settings.is_trying() {
            self.on_kubelet_proved();
            self.settings.environment_mut().on_proved();
        }
        self.on_ready_with_settings();
        if self.static_pods.on_ready() {
            self.place_static_pods();
        }
        self.hold_gate();
        self.follow_cluster();
        self.pace.on_ready(now);
    }

    /// The cluster reports the node as Ready.
    fn on_cluster_ready(&mut self) {
        self.cluster_report.on_ready(uptime());
        self.last_errors.on_cluster_ready();
        let is_first = self.settings.registration_mut().on_found(node_object::read(), uptime());
        self.keep_labels();
        if is_first {
            let text = format!("node `{}`{JOINED}", self.node_name.name());
            self.console.say(Program::Kubelet.name(), text);
        }
        let actions = self.reach.on_reached(Goal::Cluster);
        self.carry_out_reach(actions);
    }

    /// Has a child ask the daemons whether they answer.
    pub(super) fn ask_daemons(&mut self, now: Duration) {
        if self.end.is_some() || !self.health.is_due(now) {
            return;
        }
        match self.run(Program::Health) {
            Ok(()) => self.health.on_asking(),
            Err(failure) => self.console.say(Program::Health.name(), failure),
        }
    }

    /// Has a child look at the plugins of the node, unless one has done so shortly before. Without
    /// containerd there is nothing to see.
    pub(super) fn look_at_plugins(&mut self, now: Duration) {
        let has_started = self.processes.get(Program::Containerd).is_some();
        if !has_started || self.end.is_some() || !self.node_plugins.is_due(now) {
            return;
        }
        let started = self.run(Program::NodePlugins);
        self.node_plugins.on_asked(started.is_ok(), now);
        if let Err(failure) = started {
            self.console.say(Program::NodePlugins.name(), failure);
        }
    }

    fn on_health(&mut self, report: &str) {
        let now = uptime();
        let running = |daemon| match self.processes.get(daemon)?.state {
            State::Running { since, .. } => Some(now.saturating_sub(since)),
            State::Waiting { .. } | State::Ended => None,
        };
        for (daemon, text) in self.health.on_report(report, running) {
            self.console.say(Program::Health.name(), text);
            if let Some(process) = self.processes.get_mut(daemon) {
                process.end_hung(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::{node, on_a_node, set_field};
    use super::*;

    use osbuild_protocol::Setting;
    use osbuild_ranks::Source;
    use rustix::mount::{MountFlags, mount_remount};

    #[test]
    fn a_program_that_cannot_be_started_is_tried_again_after_a_pause() {
        on_a_node(|node| {
            let line = "cluster-join server=https://a ca=MIIB token=abcdef.0123456789abcdef";
            let Ok(Setting::ClusterJoin(join)) = Setting::parse(line) else { panic!("{line}") };
            node.settings.cluster_mut().set(Source::Api, Some(join), uptime());
            let program = Program::KubeletConfig;
            node.run_as(program, Launch::new(vec!["/no/such".to_owned()])).unwrap_err();
            // As one that is full, it takes no file with the cluster.
            mount_remount("/run", MountFlags::RDONLY, "").unwrap();
            for pause in [Duration::from_secs(1), Duration::from_secs(2)] {
                let now = uptime();
                node.processes.get_mut(program).unwrap().run_again(now);
                node.start_again(program);
                let due = node.processes.deadline().unwrap();
                assert!(due >= now + pause, "{due:?} is not {pause:?} after {now:?}");
            }
        });
    }

    #[test]
    fn a_node_that_gets_ready_during_a_try_proves_nothing_of_it() {
        for is_trying in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (mut node, _clients) = node(folder.path());
            if is_trying {
                node.begin_try(osbuild_protocol::TryTime::new(60).unwrap()).unwrap();
            }
            set_field(&mut node, "maxPods", "50");
            let kubelet = node.settings.kubelet_mut();
            kubelet.ask();
            kubelet.on_written(uptime());
            kubelet.on_started();
            assert!(kubelet.awaits_proof());
            node.on_ready();
            assert_eq!(node.settings.kubelet().awaits_proof(), is_trying);
        }
    }
}
