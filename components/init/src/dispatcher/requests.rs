//! Carries out the requests of clients.

use osbuild_abi::console::ADDRESS;
use osbuild_failure::Outcome;
use osbuild_protocol::{Refusal, Reply, Request};
use osbuild_ranks::Source;

use super::{Dispatcher, End, Program};
use crate::daemons::node_name;
use crate::data::{self, obstacles};
use crate::host::resolver::Resolver;
use crate::host::{host_name, link};
use crate::slot::reached::Goal;
use crate::slot::update_job::Work;
use crate::sockets::{Answer, Received};
use crate::uptime::uptime;

/// The source of what the `net` socket sets: the pod that has it speaks DHCP.
const NET: Source = Source::Dhcp;
/// The name of the lines about the pod that sets the clock.
const TIME: &str = "time";

impl Dispatcher {
    pub(super) fn on_request(&mut self, received: Received) {
        let client = received.client;
        let _cover = received.request.uses_disk().then(|| self.watchdog.cover());
        // Without an outcome the reply comes when the update job has ended.
        if let Some(outcome) = self.carry_out(received).transpose() {
            self.sockets.reply(client, outcome);
        }
    }

    /// Carries out a request. Without an answer the client waits.
    fn carry_out(&mut self, received: Received) -> Result<Option<Answer>, Refusal> {
        let Received { client, request, descriptor } = received;
        let mut reply = Reply::Done;
        match request {
            Request::HostName(name) => self.set_host_name(name)?,
            Request::Resolver { servers, search } => {
                let is_empty = servers.is_empty() && search.is_empty();
                let resolver = (!is_empty).then(|| Resolver::new(&servers, search));
                self.settings.set_resolver(NET, resolver)?;
                self.run_again(Program::PodResolvers);
            }
            Request::TimeServers(servers) => {
                let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
                let servers = (!servers.is_empty()).then_some(servers);
                self.settings.set_time_servers(NET, servers)?;
            }
            Request::Addresses { addresses, link } => self.set_addresses(&addresses, &link)?,
            Request::RouterAdvertisements(link) => link::accept_router_advertisements(&link)?,
            Request::LastSeen => reply = Reply::LastSeen(self.clock.last_seen()),
            Request::ClockSet(report) => {
                let line = self.clock.on_set(&report, uptime());
                line.iter().for_each(|line| self.console.say(TIME, line));
            }
            Request::ClockRefused(report) => {
                let line = self.clock.on_refused(&report, uptime());
                line.iter().for_each(|line| self.console.say(TIME, line));
            }
            Request::Status => reply = Reply::Node(Box::new(self.status())),
            Request::SlotsStatus => reply = Reply::Slots(self.slots_status()?),
            Request::OpenSlot => {
                let opened = self.open_slot()?;
                let reply = Reply::Slot { length: opened.length };
                return Ok(Some(Answer { reply, descriptor: Some(opened.partition) }));
            }
            Request::TrySlot => {
                return self.start_update_job(Work::Try, client, None).map(|()| None);
            }
            Request::ReplaceBootProgram => {
                let work = Work::BootProgram;
                return self.start_update_job(work, client, descriptor).map(|()| None);
            }
            Request::RestartKubelet => self.renew_kubelet_config(),
            Request::Reboot => self.request_end(End::Reboot),
            Request::PowerOff => self.request_end(End::PowerOff),
        }
        Ok(Some(reply.into()))
    }

    fn set_host_name(&mut self, name: String) -> Outcome {
        let kept = host_name::keep(&name);
        let applied = self.settings.set_host_name(NET, Some(name));
        let actions = self.node_name.on_host_name(self.settings.host_name(), node_name::joins);
        self.carry_out_name(actions);
        applied.and(kept)
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

    /// Has the kubelet's configuration written again; then the kubelet is restarted.
    fn renew_kubelet_config(&mut self) {
        let _cover = self.watchdog.cover();
        let cleared = data::folder::open().and_then(|data| obstacles::clear_for_joining(&data));
        if let Err(failure) = cleared {
            self.console.say(Program::Kubelet.name(), failure);
        }
        if let Some(config) = self.processes.get_mut(Program::KubeletConfig) {
            config.run_again(uptime());
        }
    }
}
