//! Carries out what follows from a change of the host's settings.

use std::time::Duration;

use osbuild_protocol::{Refusal, Reply, SettingName, Single, TryTime};

use super::{Dispatcher, Program};
use crate::disk_worker::Job;
use crate::disk_worker::waiting::Wants;
use crate::host::settings::{NAME, document};
use crate::sockets::{Answer, ClientId};
use crate::uptime::uptime;

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

    pub(super) fn revert_try(&mut self) -> Result<(), Refusal> {
        if let Some(lines) = self.settings.revert_try(uptime())? {
            self.on_taken_back(lines, "on request");
        }
        Ok(())
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

    fn say_about_settings(&mut self, lines: impl IntoIterator<Item = String>) {
        lines.into_iter().for_each(|line| self.console.say(NAME, line));
    }
}
