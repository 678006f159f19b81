//! Starts the kubelet: two jobs of the disk worker choose its name and find out how it runs.

use std::time::Duration;

use osbuild_failure::Outcome;

use super::{Dispatcher, Program};
use crate::daemons::kubelet::{self, Mode, Start};
use crate::daemons::node_name::{self, Known};
use crate::daemons::static_pods::Placed;
use crate::disk_worker::{Job, JobId};
use crate::host::environment::Daemon;
use crate::host::kubelet_fields;
use crate::processes::process::{Launch, Process, State};
use crate::uptime::uptime;

impl Dispatcher {
    /// Starts the kubelet for the first time in this boot.
    pub(super) fn start_kubelet(&mut self) {
        self.ask(Job::ForgetLastBoot);
        self.choose_node_name();
    }

    /// Starts the kubelet again under the name and with the files of now. Its pods go on. Before
    /// its first start there is nothing to do.
    pub(super) fn restart_kubelet(&mut self) {
        if self.processes.get(Program::Kubelet).is_some() || self.kubelet_start.is_pending() {
            self.choose_node_name();
        }
    }

    /// When to write the kubelet's files with other fields or credential providers, or for another
    /// cluster, since boot. Its first start comes with files of its own.
    pub(super) fn kubelet_files_due(&self) -> Option<Duration> {
        let has_started = self.processes.get(Program::Kubelet).is_some();
        let due = [
            self.settings.kubelet().deadline(),
            self.settings.cluster().deadline(),
            self.settings.credential_providers().deadline(),
            self.settings.swap().kubelet_deadline(),
        ];
        due.into_iter().flatten().min().filter(|_| has_started)
    }

    /// When the kubelet will have run for long enough to show that it runs with its fields, since
    /// boot.
    pub(super) fn kubelet_proof_due(&self) -> Option<Duration> {
        let fields = self.settings.kubelet();
        let State::Running { since, .. } = self.processes.get(Program::Kubelet)?.state else {
            return None;
        };
        let is_wanted = fields.awaits_proof() && !self.settings.is_trying();
        is_wanted.then_some(since + kubelet_fields::PROOF)
    }

    /// Has a child write the kubelet's files.
    pub(super) fn write_kubelet_config(&mut self) {
        // A child that hangs is asked to end once.
        self.settings.kubelet_mut().on_due();
        self.settings.cluster_mut().on_due();
        self.settings.credential_providers_mut().on_due();
        self.settings.swap_mut().on_kubelet_due();
        self.run_again(Program::KubeletConfig);
    }

    /// When to carry out a change of labels or taints, since boot. The first start of the kubelet
    /// comes with those of then.
    pub(super) fn registration_due(&self) -> Option<Duration> {
        let has_started = self.processes.get(Program::Kubelet).is_some();
        self.settings.registration().deadline().filter(|_| has_started)
    }

    /// Has the kubelet register with other labels and taints when it starts next, and changes
    /// labels of the registered node.
    pub(super) fn on_registration_due(&mut self) {
        self.settings.registration_mut().on_due();
        if !self.settings.registration().is_written() {
            self.write_kubelet_config();
        }
        if self.processes.get(Program::Cluster).is_some() {
            self.run_again(Program::Cluster);
        }
    }

    /// When to watch the node's object, since boot: not while another child changes its labels.
    pub(super) fn node_watch_due(&self) -> Option<Duration> {
        let changes = self.processes.is_running(Program::Cluster);
        self.settings.registration().watch_due().filter(|_| !changes)
    }

    /// Has a child wait until the labels or taints of the node's object are others.
    pub(super) fn watch_node(&mut self) {
        let settings = self.settings.registration_mut().on_watching();
        if let Err(failure) = self.run_for_node(Program::NodeWatch, &settings) {
            let report = failure.to_string();
            self.settings.registration_mut().on_watched(false, &report, uptime());
        }
    }

    /// Starts the child that asks the cluster about the node.
    pub(super) fn run_cluster(&mut self) -> Outcome {
        self.keep_labels();
        let labels = self.settings.registration_mut().ask();
        self.run_for_node(Program::Cluster, &labels)
    }

    /// Starts a child whose arguments are the node's name and these.
    pub(super) fn run_for_node(&mut self, program: Program, arguments: &[String]) -> Outcome {
        let name = self.node_name.name().to_owned();
        let words: Vec<&str> =
            std::iter::once(name.as_str()).chain(arguments.iter().map(String::as_str)).collect();
        self.run_as(program, Launch::child(program, &words))
    }

    /// Starts the kubelet again, with other files if its settings have changed.
    pub(super) fn restart_kubelet_with_files(&mut self) {
        if self.kubelet_files_due().is_some() {
            self.restarts_kubelet = true;
            self.write_kubelet_config();
        } else {
            self.restart_kubelet();
        }
    }

    /// Starts that child with the settings of now.
    pub(super) fn run_kubelet_config(&mut self) -> Outcome {
        self.settings.cluster_mut().ask()?;
        let fields = self.settings.kubelet_mut().ask();
        // Without the other child there is nothing else to do for a change.
        if self.processes.get(Program::Cluster).is_none() {
            self.settings.registration_mut().on_due();
        }
        self.keep_labels();
        let registered = self.settings.registration_mut().write();
        let providers = self.settings.credential_providers_mut().ask();
        let swap = self.settings.swap_mut().ask_kubelet();
        let words = registered.iter().chain(&providers).chain(&swap).chain(&fields);
        let words: Vec<&str> = words.map(String::as_str).collect();
        let launch = Launch::child(Program::KubeletConfig, &words);
        self.run_as(Program::KubeletConfig, launch)
    }

    /// The child has written the kubelet's files.
    pub(super) fn on_kubelet_config(&mut self) {
        self.on_cluster();
        self.on_document();
        let has_other_fields = self.settings.kubelet_mut().on_written(uptime());
        let has_other_cluster = self.settings.cluster_mut().on_written(uptime());
        let has_other_programs = self.settings.credential_providers_mut().on_written(uptime());
        let has_other_swap = self.settings.swap_mut().on_kubelet_written(uptime());
        let has_changed =
            has_other_fields || has_other_cluster || has_other_programs || has_other_swap;
        if has_other_cluster && self.node_name.joins() {
            self.leave_cluster();
        }
        if std::mem::take(&mut self.restarts_kubelet) || has_changed {
            self.restart_kubelet();
        }
    }

    /// Chooses the name for the kubelet that is started next. The names and identities of static
    /// pods contain the node's name, so it changes only here.
    fn choose_node_name(&mut self) {
        let job = self.ask(Job::ReadNodeName);
        self.kubelet_start.choose(job);
    }

    /// Chooses the name after the disk worker has read the facts that decide it.
    pub(super) fn on_name_known(&mut self, id: JobId, known: Known) {
        if !self.kubelet_start.on_name(id) || self.end.is_some() {
            return;
        }
        let chosen = self.settings.chosen_host_name().map(str::to_owned);
        let (own, has_address) = (self.settings.host_name(), !self.addresses.is_empty());
        let known = Known { chosen, ..known };
        let now = uptime();
        let actions = self.node_name.on_start(&known, own, has_address, now);
        if let Err(failure) = self.settings.set_node_name(self.node_name.name()) {
            self.console.say(Program::Kubelet.name(), failure);
        }
        self.carry_out_name(actions);
        // The names of the pods that these wait for contain it, too, and the cluster knows the node
        // by it.
        for program in [Program::Gate, Program::Trial, Program::Cluster] {
            if let Some(job) = self.processes.get_mut(program) {
                job.restart(now);
            }
        }
        match self.processes.get_mut(Program::Kubelet) {
            // A requested restart skips the back-off.
            Some(kubelet) => kubelet.run_again(now),
            None => self.prepare_kubelet(),
        }
    }

    /// Has a start of the kubelet prepared. The name is on DATA then, as jobs are done in order.
    pub(super) fn prepare_kubelet(&mut self) {
        if let Some(kubelet) = self.processes.get_mut(Program::Kubelet) {
            kubelet.hold();
        }
        // A name that is about to be chosen comes with a start of its own.
        if !self.kubelet_start.is_choosing() {
            // Jobs are done in order, so the kubelet finds its pods.
            self.place_static_pods();
            let name = self.node_name.name().to_owned();
            let job = self.ask(Job::PrepareKubelet(name));
            self.kubelet_start.prepare(job);
        }
    }

    /// The start is prepared.
    pub(super) fn on_kubelet_prepared(&mut self, id: JobId, start: &Start, grace: Duration) {
        if !self.kubelet_start.on_prepared(id) {
            return;
        }
        // It may have been stopped with the node.
        let is_wanted = match self.processes.get(Program::Kubelet) {
            Some(kubelet) => matches!(kubelet.state, State::Waiting { .. }),
            None => self.end.is_none(),
        };
        if !is_wanted {
            return;
        }
        self.logind.set_grace(grace);
        let joins = matches!(start.mode, Mode::Joins(_));
        self.node_name.on_started(joins);
        let words = start.command(self.node_name.name());
        let variables = self.settings.environment().variables();
        match self.run_as(Program::Kubelet, kubelet::launch(words, variables)) {
            Ok(()) => {
                self.settings.environment_mut().on_started(Daemon::Kubelet);
                self.settings.kubelet_mut().on_started();
                self.settings.cluster_mut().on_started(joins);
                self.settings.credential_providers_mut().on_started();
                self.settings.swap_mut().on_kubelet_started();
            }
            Err(failure) => self.console.say(Program::Kubelet.name(), failure),
        }
        self.follow_cluster();
    }

    /// Has the static pods of now put where the kubelet finds them.
    pub(super) fn place_static_pods(&mut self) {
        let is_asked = self.ask(Job::PlaceStaticPods(self.static_pods.wave())).is_some();
        self.static_pods.on_asked(is_asked, uptime());
    }

    /// Asks which programs of credential providers are there: nothing reports them.
    pub(super) fn look_for_programs(&mut self) {
        let names = self.settings.credential_providers().names();
        if !names.is_empty() {
            self.ask(Job::LookForPrograms(names));
        }
    }

    /// The static pods are in place, or some are not.
    pub(super) fn on_static_pods_placed(&mut self, placed: Outcome<Placed>) {
        if let Ok(Placed { of_data, .. }) = &placed {
            let lines = self.settings.pods_mut().on_data(of_data);
            self.say_about_settings(lines);
        }
        for line in self.static_pods.on_placed(placed, uptime()) {
            self.console.say(Program::Kubelet.name(), line);
        }
    }

    /// When to look what has become of the static pods of settings, since boot: not before there is
    /// a kubelet.
    pub(super) fn pod_states_due(&self) -> Option<Duration> {
        let has_started = self.processes.get(Program::Kubelet).is_some();
        self.settings.pods().deadline().filter(|_| has_started)
    }

    /// Has a child look.
    pub(super) fn ask_for_pod_states(&mut self) {
        let pods = self.settings.pods_mut().on_asking();
        if let Err(failure) = self.run_for_node(Program::PodStates, &pods) {
            self.console.say(Program::PodStates.name(), failure);
            self.settings.pods_mut().on_states("", uptime());
        }
    }

    /// Asks the cluster whether the node is Ready, once the node itself is and the kubelet joins;
    /// again if the node has left its cluster since.
    pub(super) fn follow_cluster(&mut self) {
        if self.ready.is_none() || !self.node_name.joins() || self.cluster_report.was_ready() {
            return;
        }
        let asks = |process: &Process| process.state != State::Ended;
        if !self.processes.get(Program::Cluster).is_some_and(asks) {
            self.run_again(Program::Cluster);
        }
    }

    /// The kubelet is about to start on a node that joins no cluster.
    fn on_no_cluster(&mut self) {
        self.ask(Job::ForgetNodeName);
        self.leave_cluster();
    }

    /// The node is in the cluster of before no more: another one has not reported it as Ready yet.
    fn leave_cluster(&mut self) {
        self.cluster_report.on_left();
        let actions = self.reach.on_left();
        self.carry_out_reach(actions);
    }

    pub(super) fn carry_out_name(&mut self, actions: Vec<node_name::Action>) {
        for action in actions {
            match action {
                node_name::Action::Say(text) => self.console.say(Program::Kubelet.name(), text),
                node_name::Action::Keep(name) => drop(self.ask(Job::KeepNodeName(name))),
                node_name::Action::Forget => self.on_no_cluster(),
                node_name::Action::RestartKubelet => self.restart_kubelet(),
            }
        }
    }
}
