//! Carries out what follows from a change of the host's settings.

use std::time::Duration;

use osbuild_protocol::{Refusal, Reply, SettingName, Single, TryTime};

use super::{Dispatcher, Program};
use crate::disk_worker::Job;
use crate::disk_worker::waiting::Wants;
use crate::host::settings::fallback::{Fallback, MAX_FAILURES, Proof};
use crate::host::settings::{NAME, document};
use crate::sockets::{Answer, ClientId};
use crate::uptime::uptime;

/// How long the node has to be ready, if its board names no deadline.
const START_TIMEOUT: Duration = Duration::from_secs(300);

impl Dispatcher {
    /// A request over the socket `host` has changed a setting: it is kept, unless it is tried.
    pub(super) fn keep_setting(
        &mut self,
        client: ClientId,
        name: &SettingName,
    ) -> Result<Option<Answer>, Refusal> {
        self.on_setting(name);
        if self.settings.is_trying() {
            return Ok(Some(Reply::Done.into()));
        }
        self.keep_settings(client).map(|()| None)
    }

    fn keep_settings(&mut self, client: ClientId) -> Result<(), Refusal> {
        self.ask_for(client, Wants::Disk, Job::KeepSettings(self.settings.text()))
    }

    /// A setting has changed: carries out what follows from it.
    pub(super) fn on_setting(&mut self, name: &SettingName) {
        match name {
            SettingName::Single(Single::HostName) => {
                let actions = self.node_name.on_host_name(self.settings.host_name());
                self.carry_out_name(actions);
            }
            SettingName::Single(Single::NameServers | Single::SearchDomains) => {
                self.run_again(Program::PodResolvers);
            }
            // The pod that sets the clock watches the file of its servers.
            SettingName::Single(Single::TimeServers) | SettingName::KernelParameter(_) => {}
        }
    }

    pub(super) fn begin_try(&mut self, time: TryTime) -> Result<(), Refusal> {
        self.settings.begin_try(time, uptime())?;
        let seconds = time.seconds();
        self.say_about_settings([format!("changes are taken back in {seconds} s if unconfirmed")]);
        Ok(())
    }

    pub(super) fn confirm_try(&mut self, client: ClientId) -> Result<(), Refusal> {
        self.settings.confirm_try()?;
        self.say_about_settings(["the changes are confirmed".to_owned()]);
        self.keep_settings(client)
    }

    pub(super) fn revert_try(&mut self, client: ClientId) -> Result<Option<Answer>, Refusal> {
        if self.settings.acknowledge() {
            return self.ask_for(client, Wants::Disk, Job::KeepAcknowledged).map(|()| None);
        }
        if let Some(lines) = self.settings.revert_try(uptime())? {
            self.on_taken_back(lines, "on request");
        }
        Ok(Some(Reply::Done.into()))
    }

    pub(super) fn on_try_deadline(&mut self, now: Duration) {
        if let Some(lines) = self.settings.expire_try(now) {
            self.on_taken_back(lines, "as nobody confirmed them in time");
        }
    }

    fn on_taken_back(&mut self, lines: Vec<String>, reason: &str) {
        self.say_about_settings(lines);
        self.say_about_settings([format!("the changes are taken back, {reason}")]);
        self.on_many_settings();
    }

    /// The node document was read again.
    pub(super) fn on_document(&mut self) {
        if let Some(lines) = self.settings.set_document(document::read(), uptime()) {
            self.say_about_settings(lines);
            self.on_many_settings();
        }
    }

    /// Any setting may have changed.
    fn on_many_settings(&mut self) {
        for single in [Single::HostName, Single::NameServers] {
            self.on_setting(&single.into());
        }
    }

    /// Another program may have changed what is set on the host.
    pub(super) fn on_host_changed(&mut self) {
        let lines = self.settings.hold(uptime());
        self.say_about_settings(lines);
    }

    pub(super) fn on_parameters_due(&mut self, now: Duration) {
        let lines = self.settings.hold_kernel_parameters(now);
        self.say_about_settings(lines);
    }

    /// Sets what this start takes of the kept settings.
    pub(super) fn start_settings(&mut self, fallback: Fallback) {
        let lines = self.settings.start(fallback, self.start_timeout(), uptime());
        self.say_about_settings(lines);
    }

    /// A daemon has failed so many times in a row.
    pub(super) fn on_daemon_failed(&mut self, name: &str, times: u32) {
        if times > 0 && times.is_multiple_of(MAX_FAILURES) {
            self.give_up_settings(&format!("{name} has failed {times} times in a row"));
        }
    }

    pub(super) fn on_start_deadline(&mut self) {
        let seconds = self.start_timeout().as_secs();
        self.give_up_settings(&format!("the node is not ready after {seconds} s"));
    }

    /// The settings may be the reason why the node does not get ready.
    fn give_up_settings(&mut self, reason: &str) {
        let timeout = self.start_timeout();
        let Some((failures, lines)) = self.settings.give_up(reason, timeout, uptime()) else {
            return;
        };
        self.ask(Job::CountFailedStarts(failures));
        self.say_about_settings(lines);
        self.on_many_settings();
        // A daemon may have started with what is taken back, and go on without a part of itself.
        if let Some(containerd) = self.processes.get_mut(Program::Containerd) {
            containerd.run_again(uptime());
        }
        self.restart_kubelet();
    }

    /// The node is ready, or its slot has become a good one as well: its settings are good, or it
    /// has gone back to those that are.
    pub(super) fn on_ready_with_settings(&mut self) {
        let Some(proof) = self.settings.on_ready(self.trial.is_on()) else { return };
        if let Proof::GoneBack(_) = proof {
            let text = "the node is ready with earlier settings, and goes back to them";
            self.say_about_settings([text.to_owned()]);
        }
        self.ask(Job::KeepProof(proof));
    }

    /// How long the node has to be ready: so that a slot on trial can still get ready with earlier
    /// settings.
    fn start_timeout(&self) -> Duration {
        self.facts.command_line().gate_deadline.map_or(START_TIMEOUT, |deadline| deadline / 2)
    }

    fn say_about_settings(&mut self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.console.say(NAME, line));
    }
}
