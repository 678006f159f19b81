//! Carries out the requests of clients.

use osbuild_abi::console::ADDRESS;
use osbuild_abi::osd;
use osbuild_failure::Outcome;
use osbuild_protocol::{
    Fingerprint, NetworkName, Refusal, RefusalCode, Reply, ReportText, Request, Single,
};
use osbuild_ranks::Source;
use rustix::time::{ClockId, clock_gettime};

use super::{Dispatcher, End};
use crate::disk_worker::Job;
use crate::disk_worker::waiting::Wants;
use crate::host::link;
use crate::host::network::Network;
use crate::slot::reached::Goal;
use crate::slot::update_job::Work;
use crate::sockets::{Answer, ClientId, Received};
use crate::uptime::uptime;

/// The source of what the `net` socket sets: the pod that has it speaks DHCP.
const NET: Source = Source::Dhcp;
/// The name of the lines about the pod that sets the clock.
const TIME: &str = "time";
/// Why nothing checks for a release.
const NO_UPDATER: &str = "no updater waits for its next check: it is busy, or does not run";
/// The name of the node API on the console.
const API: &str = "api";
/// The name of the lines about the node document of the machine.
const BOOTSTRAP: &str = "bootstrap";

impl Dispatcher {
    pub(super) fn on_request(&mut self, received: Received) {
        let client = received.client;
        // Without an outcome the reply comes when a job has ended.
        if let Some(outcome) = self.carry_out(received).transpose() {
            self.sockets.reply(client, outcome);
        }
    }

    /// Carries out a request. Without an answer the client waits.
    fn carry_out(&mut self, received: Received) -> Result<Option<Answer>, Refusal> {
        let Received { client, request, descriptor } = received;
        let mut reply = Reply::Done;
        match request {
            Request::HostName(name) => return self.set_host_name(client, name).map(|()| None),
            Request::Resolver { servers, search } => {
                self.set_resolver(line(&servers), line(&search))?;
            }
            Request::TimeServers(servers) => {
                self.settings.set(NET, [(Single::TimeServers, line(&servers))])?;
            }
            Request::Addresses { addresses, link } => self.set_addresses(&addresses, &link)?,
            Request::RouterAdvertisements(link) => link::accept_router_advertisements(&link)?,
            Request::AwaitNetwork(revision) => {
                self.network_client.on_waits(client, revision);
                if self.static_pods.on_network() {
                    self.place_static_pods();
                }
                return Ok(None);
            }
            Request::NetworkSet(setting) => self.network().on_set(setting),
            Request::NetworkFailed { name, reason } => self.on_network_failed(&name, reason),
            Request::FormerMtu { link, mtu } => self.network().on_former_mtu(link, mtu)?,
            Request::WireGuard(state) => self.network().on_wireguard(state)?,
            Request::LastSeen => reply = Reply::LastSeen(self.clock.last_seen()),
            Request::ClockSet(report) => {
                let line = self.clock.on_set(&report, uptime());
                line.iter().for_each(|line| self.console.say(TIME, line));
            }
            Request::ClockRefused(report) => {
                let line = self.clock.on_refused(&report, uptime());
                line.iter().for_each(|line| self.console.say(TIME, line));
            }
            Request::Apply(setting) => return self.apply_setting(client, &setting),
            Request::Withdraw(name) => return self.withdraw_setting(client, &name),
            Request::BeginTry(time) => self.begin_try(time)?,
            Request::ConfirmTry => return self.confirm_try(client).map(|()| None),
            Request::RevertTry => return self.revert_try(client),
            Request::Observe => reply = Reply::Settings(self.observe()),
            Request::Serves(fingerprint) => self.on_serves(fingerprint),
            Request::Bootstrap(report) => self.on_bootstrap(report),
            Request::OpenVolume { after } => return self.wait_for(client, Job::OpenVolume(after)),
            Request::Status => {
                self.look_at_plugins(uptime());
                return self.ask_for(client, Wants::NodeStatus, Job::ReadSlots).map(|()| None);
            }
            Request::SlotsStatus => return self.wait_for(client, Job::ReadSlots),
            Request::OpenSlot => return self.open_slot(client).map(|()| None),
            Request::TrySlot => return self.begin_update_job(Work::Try, client, None),
            Request::AwaitCheck => {
                self.updater = Some(client);
                return Ok(None);
            }
            Request::Progress(report) => self.last_report.on_report(report, unix_time(), client),
            Request::CheckNow => self.wake_updater()?,
            Request::RollBack => return self.begin_update_job(Work::RollBack, client, None),
            Request::ReplaceBootProgram => {
                return self.begin_update_job(Work::BootProgram, client, descriptor);
            }
            Request::Debug(container) => self.begin_debug(&container)?,
            Request::EndDebug => self.end_debug(uptime())?,
            // The kubelet's configuration is written again then, and the kubelet is restarted.
            Request::RestartKubelet => return self.wait_for(client, Job::ClearForJoining),
            Request::RestartContainerd => self.restart_containerd(),
            Request::Reset => return self.wait_for(client, Job::RequestReset),
            Request::Reboot => self.request_end(End::Reboot),
            Request::PowerOff => self.request_end(End::PowerOff),
        }
        Ok(Some(reply.into()))
    }

    fn on_network_failed(&mut self, name: &NetworkName, reason: String) {
        let known = self.network_client.given();
        self.network().on_failed(name, reason, known);
    }

    /// The settings of the network, for reports about them.
    fn network(&mut self) -> &mut Network {
        self.settings.network_mut()
    }

    fn set_resolver(&mut self, servers: Option<String>, search: Option<String>) -> Outcome {
        let values = [(Single::NameServers, servers), (Single::SearchDomains, search)];
        let set = self.settings.set(NET, values);
        // The file is written again if that has failed, and pods have to follow then as well.
        self.on_setting(&Single::NameServers.into());
        set
    }

    /// Asks for a job of the disk worker, for which the client waits.
    fn wait_for(&mut self, client: ClientId, job: Job) -> Result<Option<Answer>, Refusal> {
        self.ask_for(client, Wants::Disk, job).map(|()| None)
    }

    /// Has the updater check for a release.
    fn wake_updater(&mut self) -> Result<(), Refusal> {
        let waiting = self.updater.take();
        match waiting.is_some_and(|client| self.sockets.reply(client, Ok(Reply::Done.into()))) {
            true => Ok(()),
            false => Err(Refusal::new(RefusalCode::Failed, NO_UPDATER)),
        }
    }

    /// Prints the fingerprint of the node API, unless it is the last one.
    fn on_serves(&mut self, fingerprint: Fingerprint) {
        if self.served.as_ref() != Some(&fingerprint) {
            let port = osd::PORT;
            self.console.say(API, format!("port {port} serves the node API as {fingerprint}"));
            self.served = Some(fingerprint);
        }
    }

    /// Prints what became of the machine's node document, unless it is the last report.
    fn on_bootstrap(&mut self, report: ReportText) {
        if self.bootstrap.as_ref() != Some(&report) {
            self.console.say(BOOTSTRAP, &report);
            self.bootstrap = Some(report);
        }
    }

    /// Sets the host name. It is kept before any name in the cluster that follows from it.
    fn set_host_name(&mut self, client: ClientId, name: String) -> Result<(), Refusal> {
        self.settings.set(NET, [(Single::HostName, Some(name.clone()))])?;
        self.ask_for(client, Wants::Disk, Job::KeepHostName(name))?;
        self.on_setting(&Single::HostName.into());
        Ok(())
    }

    fn set_addresses(&mut self, addresses: &[String], link: &str) -> Outcome {
        let new = self.addresses.replace(addresses, link)?;
        for address in &new {
            self.console.line(&format!("{ADDRESS}{address}"));
        }
        if !new.is_empty() {
            self.node_name.on_address(uptime());
            let actions = self.reach.on_reached(Goal::Address);
            self.carry_out_reach(actions);
        }
        Ok(())
    }
}

/// Seconds since 1970; 0 if the clock shows an earlier time.
fn unix_time() -> u64 {
    clock_gettime(ClockId::Realtime).tv_sec.try_into().unwrap_or_default()
}

/// The words as one line; nothing if there are none.
fn line(words: &[impl ToString]) -> Option<String> {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(" "))
}
