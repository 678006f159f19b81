//! Holds the host to the links, addresses, routes, MTU, routing rules, firewall rules and NAT rules
//! that `init` asks for: sets them, puts them back when another program changes them, and removes
//! what is withdrawn. It leaves alone what it did not set. After a restart the kernel shows what is
//! its own.

mod kernel;
pub(crate) mod links;
mod made;
mod plan;
mod refused;
mod rules;
mod wanted;
pub mod wireguard;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use osbuild_protocol::{
    Client, LinkName, LinkState, MAX_REASON, Mtu, NetworkName, NetworkSetting, NetworkSettings,
    Request,
};

use crate::firewall::HeldTable;
use crate::link_kind::LinkKind;
use crate::netlink::{Link, Netlink};
use crate::pace::Pace;
use crate::settings::MAX_ADDRESSES;
use kernel::ChangeMonitor;
pub use made::{HostLink, HostLinks};
use made::{LinkAction, LinkPlan};
use plan::{Action, Found, FoundLink};
use refused::RefusedPorts;
use wanted::WantedSettings;
use wireguard::Tunnels;

/// The wait before a setting that the kernel has refused is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How long to wait for `init`.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The settings, and what has become of them.
pub struct StaticNetwork {
    wanted: NetworkSettings,
    source: WantedSettings,
    monitor: ChangeMonitor,
    firewall: HeldTable,
    nat: HeldTable,
    /// None if pods may reach the metadata.
    metadata: Option<HeldTable>,
    tunnels: Tunnels,
    /// The MTU that links had before a setting; none before the first settings.
    former_mtus: BTreeMap<LinkName, Mtu>,
    /// The links that settings have switched off. A client that starts switches on all links that
    /// no setting switches off.
    switched_off: BTreeSet<LinkName>,
    refused_ports: RefusedPorts,
    /// Why settings are not in effect; none if they are.
    outcomes: BTreeMap<NetworkName, Option<String>>,
    /// When to compare the host with the settings.
    pace: Pace,
    /// Whether nothing is set, and nothing of this program is left.
    is_idle: bool,
}

impl StaticNetwork {
    /// Asks `init` at this socket. From now on, pods reach the metadata of a cloud only with
    /// `opens_metadata`.
    pub fn start(socket: &Path, opens_metadata: bool, now: Duration) -> io::Result<Self> {
        let mut metadata = (!opens_metadata).then(HeldTable::metadata);
        if let Some(table) = &mut metadata {
            table.take_settings(&[], now);
            if let Some(Some(problem)) = table.outcome() {
                eprintln!("pods may reach the metadata of a cloud: {problem}");
            }
        }
        Ok(Self {
            wanted: NetworkSettings::default(),
            source: WantedSettings::start(socket)?,
            monitor: ChangeMonitor::open()?,
            firewall: HeldTable::firewall(),
            nat: HeldTable::nat(),
            metadata,
            tunnels: Tunnels::default(),
            former_mtus: BTreeMap::new(),
            switched_off: BTreeSet::new(),
            refused_ports: RefusedPorts::default(),
            outcomes: BTreeMap::new(),
            pace: Pace::default(),
            is_idle: true,
        })
    }

    /// The descriptors to poll: for new settings, and for changes of the host.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let own = [self.source.as_fd(), self.monitor.as_fd()];
        own.into_iter().chain(self.tables().filter_map(HeldTable::descriptor)).collect()
    }

    /// Takes new settings from `init`. Returns whether there are any.
    pub fn take_settings(&mut self, now: Duration) -> bool {
        let Some(settings) = self.source.take() else { return false };
        if self.wanted.revision == 0 {
            self.former_mtus = settings.former_mtus.iter().cloned().collect();
        }
        self.firewall.take_settings(&settings.settings, now);
        self.nat.take_settings(&settings.settings, now);
        self.wanted = settings;
        self.refused_ports = RefusedPorts::default();
        self.pace.set(now);
        self.is_idle = false;
        true
    }

    /// Takes reports of changes of the host.
    pub fn take_changes(&mut self, now: Duration) {
        if self.monitor.drain() && !self.is_idle {
            self.pace.on_change(now);
        }
        self.tables_mut().for_each(|table| table.take_changes(now));
    }

    /// When [`Self::hold`] is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.pace.due().into_iter().chain(self.tunnels.deadline()).min()
    }

    /// When [`Self::hold_tables`] is due.
    pub fn tables_deadline(&self) -> Option<Duration> {
        self.tables().filter_map(HeldTable::deadline).min()
    }

    /// Compares the tables of the host with the rules, and replaces those that differ.
    pub fn hold_tables(&mut self, now: Duration) {
        self.tables_mut().for_each(|table| table.hold(now));
    }

    fn tables(&self) -> impl Iterator<Item = &HeldTable> {
        [&self.firewall, &self.nat].into_iter().chain(&self.metadata)
    }

    fn tables_mut(&mut self) -> impl Iterator<Item = &mut HeldTable> {
        [&mut self.firewall, &mut self.nat].into_iter().chain(&mut self.metadata)
    }

    /// Whether DHCP may configure a link.
    pub fn allows_dhcp(&self, link: &str) -> bool {
        !self.wanted.settings.iter().any(
            |setting| matches!(setting, NetworkSetting::Dhcp(name, false) if name.as_str() == link),
        )
    }

    /// Whether a setting switches a link off.
    pub fn switches_off(&self, link: &str) -> bool {
        plan::is_switched_off(&self.wanted.settings, link)
    }

    /// Whether a setting makes a link.
    pub fn makes(&self, link: &str) -> bool {
        self.wanted.settings.iter().any(
            |setting| matches!(setting, NetworkSetting::Made(name, _) if name.as_str() == link),
        )
    }

    /// Whether a setting makes this link of WireGuard, which has no client, and it is on, or off by
    /// a setting: before, it takes no routes.
    pub fn holds_tunnel(&self, link: &Link) -> bool {
        let is_settled = link.up || self.switches_off(&link.name);
        is_settled && link.is_made && link.kind == LinkKind::WireGuard && self.makes(&link.name)
    }

    /// The links that are ports of those that settings make.
    pub fn ports(&self, links: &[Link]) -> BTreeSet<String> {
        made::ports(&self.wanted.settings, links.iter()).into_keys().collect()
    }

    /// Makes the links that are missing, so that their ports are known as such.
    pub fn make_links(&self, links: &HostLinks, netlink: &mut Netlink) {
        for action in made::plan(&self.wanted.settings, links).actions {
            if matches!(action, LinkAction::Create(..))
                && let Err(error) = change_link(&action, netlink)
            {
                eprintln!("cannot carry out {action:?} yet: {error}");
            }
        }
    }

    /// Whether the MTU of a link is that of a setting.
    pub fn sets_mtu(&self, link: &str) -> bool {
        self.wanted
            .settings
            .iter()
            .any(|setting| matches!(setting, NetworkSetting::Mtu(name, _) if name.as_str() == link))
    }

    /// The MTU that a link had before that of a setting, until it has it back.
    pub fn former_mtu(&self, link: &str) -> Option<u32> {
        let mut former_mtus = self.former_mtus.iter();
        former_mtus.find_map(|(name, mtu)| (name.as_str() == link).then(|| mtu.bytes().into()))
    }

    /// The IPv4 addresses that a link has of settings, each `ADDRESS/PREFIX-LENGTH`. Those of IPv6
    /// are among the addresses of the link.
    pub fn addresses4(&self, link: &str) -> Vec<String> {
        let addresses = self.wanted.settings.iter().filter_map(|setting| match setting {
            NetworkSetting::Address(address)
                if address.link().as_str() == link
                    && matches!(address.address(), IpAddr::V4(_))
                    && self.outcomes.get(&setting.name()) == Some(&None) =>
            {
                Some(address.with_length())
            }
            _ => None,
        });
        addresses.collect()
    }

    /// The requests that report the outcome of each setting to `init`.
    pub fn requests(&self) -> impl Iterator<Item = Request> {
        let of_table = |table: &HeldTable| {
            table.outcome().map(|problem| problem.map(|reason| printable(&reason)))
        };
        let outcomes = self.wanted.settings.iter().filter_map(move |setting| {
            let outcome = match setting {
                NetworkSetting::FirewallRule(_) => of_table(&self.firewall),
                NetworkSetting::Nat(_) if self.nat.outcome() != Some(None) => of_table(&self.nat),
                _ => self.outcomes.get(&setting.name()).cloned(),
            };
            Some(match outcome? {
                None => Request::NetworkSet(setting.clone()),
                Some(reason) => Request::NetworkFailed { name: setting.name(), reason },
            })
        });
        let tunnels = self.tunnels.states().cloned().map(Request::WireGuard);
        outcomes.chain(tunnels).chain(self.tunnel_addresses())
    }

    /// The reports of the addresses that links of WireGuard have of settings, as they have no
    /// client that reports those.
    fn tunnel_addresses(&self) -> impl Iterator<Item = Request> {
        self.tunnels.states().filter_map(|state| {
            let addresses = self.wanted.settings.iter().filter_map(|setting| match setting {
                NetworkSetting::Address(address)
                    if *address.link() == state.link
                        && self.outcomes.get(&setting.name()) == Some(&None) =>
                {
                    Some(address.with_length())
                }
                _ => None,
            });
            let addresses: Vec<String> = addresses.take(MAX_ADDRESSES).collect();
            let link = state.link.to_string();
            (!addresses.is_empty()).then_some(Request::Addresses { addresses, link })
        })
    }

    /// Compares the host with the settings, and changes what differs.
    pub fn hold(&mut self, host: &HostLinks, netlink: &mut Netlink, socket: &Path, now: Duration) {
        self.pace.begin(now);
        let found = match self.found(host, netlink) {
            Ok(found) => found,
            Err(error) => {
                eprintln!("cannot list addresses and routes: {error}");
                self.pace.set(now + RETRY);
                self.tunnels.wait_until(now + RETRY);
                return;
            }
        };
        self.note_switched_off(&found);
        let wanted = &self.wanted.settings;
        let actions = plan::plan(wanted, &self.former_mtus, &self.switched_off, &found);
        let LinkPlan { actions: link_actions, problems } = made::plan(&self.wanted.settings, host);
        let outcome = |setting: &NetworkSetting| (setting.name(), found.problem(setting, wanted));
        self.outcomes = wanted.iter().map(outcome).collect();
        let all = host.links.iter().map(|host| &host.link);
        let tunnels = self.tunnels.hold(&self.wanted, all, now);
        let rules = rules::hold(&self.wanted.settings, netlink);
        let problems = problems.into_iter().chain(rules.problems).chain(tunnels);
        let problems = problems.chain(awaited_links(&self.wanted.settings, &host.names));
        self.outcomes.extend(problems.map(|(name, problem)| (name, Some(printable(&problem)))));
        let is_rule = |setting: &NetworkSetting| matches!(setting, NetworkSetting::FirewallRule(_));
        self.is_idle = self.wanted.settings.iter().all(is_rule)
            && self.former_mtus.is_empty()
            && actions.is_empty()
            && link_actions.is_empty()
            && !rules.changed;
        let mut refused = rules.refused;
        for action in actions {
            if let Err(error) = self.carry_out(&action, netlink, socket) {
                refused = true;
                self.on_refused(&action, action.setting(), &error);
            }
        }
        // A link goes once nothing is set on it, and what is set on a new one is set with the next
        // comparison: the kernel reports the link.
        refused |= self.change_links(link_actions, netlink, now);
        if refused {
            self.pace.set(now + RETRY);
        }
        self.source.on_carried_out();
    }

    /// Carries out changes of links. Returns whether any is refused.
    fn change_links(
        &mut self,
        actions: Vec<LinkAction>,
        netlink: &mut Netlink,
        now: Duration,
    ) -> bool {
        let mut refused = false;
        for action in actions {
            if let Some(reason) = self.refused_ports.reason(&action, now) {
                refused = true;
                self.outcomes.extend(action.setting().map(|name| (name, Some(printable(reason)))));
            } else if let Err(error) = change_link(&action, netlink) {
                refused = true;
                self.refused_ports.insert(&action, &error.to_string(), now);
                self.on_refused(&action, action.setting(), &error);
            }
        }
        refused
    }

    /// Reads the links that this program serves and their ports, the addresses of all links, and
    /// the routes that this program has set.
    fn found(&self, host: &HostLinks, netlink: &mut Netlink) -> io::Result<Found> {
        let HostLinks { links, names } = host;
        let ports = made::ports(&self.wanted.settings, links.iter().map(|host| &host.link));
        let off_parent = |link: &Link| {
            // A veth has the index of its peer there, perhaps of another network namespace.
            let parent = link.parent.filter(|_| matches!(link.kind, LinkKind::Vlan(..)))?;
            let parent = links.iter().find(|host| host.link.index == parent)?;
            (!parent.link.up).then(|| parent.link.name.clone())
        };
        let links = links.iter().map(|host| {
            let HostLink { link, is_served, is_of_node, leased_mtu, former_mtu } = host;
            let port_of = ports.get(&link.name).filter(|_| *is_of_node || link.is_made).cloned();
            let is_found = *is_served || port_of.is_some();
            is_found.then(|| FoundLink {
                index: link.index,
                is_up: link.up,
                off_parent: off_parent(link),
                name: link.name.clone(),
                mtu: link.mtu,
                leased_mtu: *leased_mtu,
                former_mtu: *former_mtu,
                is_made: link.is_made,
                port_of,
            })
        });
        let links = links.flatten().collect();
        let (addresses, routes) = (netlink.all_addresses()?, netlink.static_routes()?);
        Ok(Found { links, names: names.clone(), addresses, routes })
    }

    /// Adds the links that settings switch off, and drops those that are on again.
    fn note_switched_off(&mut self, found: &Found) {
        let off = self.wanted.settings.iter().filter_map(|setting| match setting {
            NetworkSetting::State(link, LinkState::Down) => Some(link.clone()),
            _ => None,
        });
        let mut off: BTreeSet<LinkName> = off.collect();
        let is_off = |name: &LinkName| {
            found.links.iter().any(|link| link.name == name.as_str() && !link.is_up)
        };
        off.extend(self.switched_off.iter().filter(|name| is_off(name)).cloned());
        self.switched_off = off;
    }

    fn on_refused(&mut self, action: &dyn Debug, setting: Option<NetworkName>, error: &io::Error) {
        let reason = error.to_string();
        eprintln!("cannot carry out {action:?}: {reason}");
        if let Some(name) = setting {
            self.outcomes.insert(name, Some(printable(&reason)));
        }
    }

    fn carry_out(
        &mut self,
        action: &Action,
        netlink: &mut Netlink,
        socket: &Path,
    ) -> io::Result<()> {
        match action {
            Action::DeleteRoute(route) => netlink.delete_static_route(route),
            Action::DeleteAddress(address) => netlink.delete_found_address(address),
            Action::PutAddress(index, address) => netlink.put_static_address(*index, address),
            Action::PutRoute(index, route) => netlink.put_static_route(*index, route),
            Action::RememberMtu(link, mtu) => {
                tell(socket, link, Some(*mtu))?;
                self.former_mtus.insert(link.clone(), *mtu);
                Ok(())
            }
            // Without a former MTU the link could not have it back.
            Action::SetMtu(_, link, _) if !self.former_mtus.contains_key(link) => {
                Err(io::Error::other("init does not remember the MTU from before"))
            }
            Action::SetMtu(index, _, mtu) => netlink.set_mtu(*index, mtu.bytes().into()),
            Action::RestoreMtu(index, link, mtu) => {
                netlink.set_mtu(*index, mtu.bytes().into())?;
                self.forget_mtu(socket, link)
            }
            Action::ForgetMtu(link) => self.forget_mtu(socket, link),
            Action::Switch(index, _, LinkState::Down) => netlink.switch_off(*index),
            Action::Switch(index, _, LinkState::Up) => netlink.switch_on(*index),
        }
    }

    fn forget_mtu(&mut self, socket: &Path, link: &LinkName) -> io::Result<()> {
        tell(socket, link, None)?;
        self.former_mtus.remove(link);
        Ok(())
    }
}

impl Action {
    /// The setting that the action is for.
    fn setting(&self) -> Option<NetworkName> {
        match self {
            Action::PutAddress(_, address) => Some(NetworkSetting::Address(address.clone()).name()),
            Action::PutRoute(_, route) => Some(NetworkSetting::Route(route.clone()).name()),
            Action::RememberMtu(link, _) | Action::SetMtu(_, link, _) => {
                Some(NetworkName::Mtu(link.clone()))
            }
            Action::Switch(_, link, _) => Some(NetworkName::State(link.clone())),
            Action::DeleteRoute(_)
            | Action::DeleteAddress(_)
            | Action::RestoreMtu(..)
            | Action::ForgetMtu(_) => None,
        }
    }
}

fn change_link(action: &LinkAction, netlink: &mut Netlink) -> io::Result<()> {
    match action {
        LinkAction::Remove(index) => netlink.remove_link(*index),
        LinkAction::Create(name, made, parent) => netlink.create_link(name, made, *parent),
        LinkAction::SetOptions(index, _, made) => netlink.set_link_options(*index, made),
        LinkAction::Release(port) => netlink.release_port(*port),
        LinkAction::Attach { port, master, .. } => netlink.attach_port(*port, *master),
        LinkAction::SetPrimary(index, _, port) => netlink.set_primary(*index, *port),
        LinkAction::SwitchOn(index, _) => netlink.switch_on(*index),
        LinkAction::SetMtu { index, mtu, .. } => netlink.set_mtu(*index, *mtu),
    }
}

/// The problem of each NAT rule whose link is not there. The rule is in the kernel, and has an
/// effect as soon as it is.
fn awaited_links(
    settings: &[NetworkSetting],
    names: &BTreeSet<String>,
) -> impl Iterator<Item = (NetworkName, String)> {
    settings.iter().filter_map(|setting| {
        let NetworkSetting::Nat(rule) = setting else { return None };
        let link = rule.link()?;
        let is_there = names.iter().any(|name| link.matches(name));
        (!is_there).then(|| (setting.name(), format!("it waits for a link `{link}`")))
    })
}

/// Has `init` remember or forget the former MTU of a link.
fn tell(socket: &Path, link: &LinkName, mtu: Option<Mtu>) -> io::Result<()> {
    let request = Request::FormerMtu { link: link.clone(), mtu };
    let sent = Client::connect(socket, TIMEOUT).and_then(|mut init| init.send(&request));
    sent.map_err(|error| io::Error::other(format!("init: {error}")))
}

/// The reason as one line that `init` takes.
fn printable(reason: &str) -> String {
    let letters =
        reason.chars().map(|letter| if matches!(letter, ' '..='~') { letter } else { '?' });
    letters.take(MAX_REASON).collect()
}
