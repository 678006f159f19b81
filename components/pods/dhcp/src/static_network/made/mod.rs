//! Which links to make and to remove. It is pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use osbuild_protocol::{Bond, LinkName, MadeLink, NetworkName, NetworkSetting, link_conflicts};

use super::links::{Difference, NewPort, difference};
use super::plan::is_switched_off;
use crate::link_kind::LinkKind;
use crate::netlink::Link;

/// The MTU of a link without ports.
const ETHERNET_MTU: u32 = 1500;
/// That of a link of WireGuard: with the headers of IPv6 and WireGuard, its packets fit Ethernet.
const WIREGUARD_MTU: u32 = 1420;

/// A link of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLink {
    /// The link.
    pub link: Link,
    /// Whether it is the node's: a device that this program may serve. Those that the node makes
    /// are as well.
    pub is_of_node: bool,
    /// Whether this program serves it.
    pub is_served: bool,
    /// The MTU of its lease.
    pub leased_mtu: Option<u16>,
    /// The MTU that it had before that of a lease.
    pub former_mtu: Option<u32>,
}

/// The links of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLinks {
    /// Those of Ethernet and of WireGuard, except the loopback.
    pub links: Vec<HostLink>,
    /// The names of all links.
    pub names: BTreeSet<String>,
}

/// A change of the links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkAction {
    /// Remove the link with this index.
    Remove(u32),
    /// Make a link, with the index of its parent.
    Create(LinkName, MadeLink, Option<u32>),
    /// Give the link with this index the options of its setting.
    SetOptions(u32, LinkName, MadeLink),
    /// Make the link `port` no port any more.
    Release(u32),
    /// Make a link a port of the link with the index `master`.
    Attach { port: NewPort, master: u32, link: LinkName },
    /// Have the bond with this index prefer the port with another one; none with the index 0.
    SetPrimary(u32, LinkName, u32),
    /// Switch on the link with this index, which is this one or a port of it.
    SwitchOn(u32, LinkName),
    /// Give the link with this index an MTU: that of a setting, if `is_setting`.
    SetMtu { index: u32, link: LinkName, mtu: u32, is_setting: bool },
}

/// The changes, and why links cannot be as they shall.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LinkPlan {
    /// The changes, in this order.
    pub actions: Vec<LinkAction>,
    /// The reasons.
    pub problems: BTreeMap<NetworkName, String>,
}

impl LinkAction {
    /// The setting that the action is for.
    pub fn setting(&self) -> Option<NetworkName> {
        Some(match self {
            Self::Remove(_) | Self::Release(_) => return None,
            Self::SetMtu { link, is_setting: true, .. } => NetworkName::Mtu(link.clone()),
            Self::Create(link, ..)
            | Self::SetOptions(_, link, _)
            | Self::Attach { link, .. }
            | Self::SetPrimary(_, link, _)
            | Self::SwitchOn(_, link)
            | Self::SetMtu { link, .. } => NetworkName::Made(link.clone()),
        })
    }
}

/// A port of a link that a setting makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name of that link.
    pub of: LinkName,
    /// Whether it has the MTU of that link.
    pub follows_mtu: bool,
}

/// The links that are ports of those that settings make. A link that does not exist yet has no
/// ports.
pub fn ports<'a>(
    wanted: &[NetworkSetting],
    links: impl Iterator<Item = &'a Link>,
) -> BTreeMap<String, Port> {
    let conflicts = link_conflicts(wanted);
    let made: Vec<&str> =
        links.filter(|link| link.is_made).map(|link| link.name.as_str()).collect();
    let is_there = |name: &LinkName| !conflicts.contains_key(name) && made.contains(&name.as_str());
    let mut ports = BTreeMap::new();
    for setting in wanted {
        if let NetworkSetting::Made(name, made) = setting
            && is_there(name)
        {
            let port = Port { of: name.clone(), follows_mtu: matches!(made, MadeLink::Bond(_)) };
            ports.extend(made.ports().map(|name| (name.to_string(), port.clone())));
        }
    }
    ports
}

/// Compares the links with the settings. A link to be replaced is only removed now, and made with
/// the next plan, so that each part of the program sees that it is another link.
pub fn plan(wanted: &[NetworkSetting], host: &HostLinks) -> LinkPlan {
    let HostLinks { links, names } = host;
    let conflicts = link_conflicts(wanted);
    let made = wanted.iter().filter_map(|setting| match setting {
        NetworkSetting::Made(name, made) => Some((name, made)),
        _ => None,
    });
    let (refused, made): (BTreeMap<_, _>, BTreeMap<_, _>) =
        made.partition(|(name, _)| conflicts.contains_key(*name));
    let mut planned = Planned { wanted, links, names, made: &made, plan: LinkPlan::default() };
    for name in refused.keys() {
        planned.report(name, conflicts[*name].clone());
    }
    let own = links.iter().map(|host| &host.link).filter(|link| link.is_made);
    let is_wanted = |link: &Link| made.keys().any(|name| name.as_str() == link.name);
    let unwanted = own.filter(|link| !is_wanted(link));
    planned.plan.actions.extend(unwanted.map(|link| LinkAction::Remove(link.index)));
    for (name, made) in &made {
        planned.compare(name, made);
    }
    planned.plan
}

struct Planned<'a> {
    wanted: &'a [NetworkSetting],
    links: &'a [HostLink],
    names: &'a BTreeSet<String>,
    made: &'a BTreeMap<&'a LinkName, &'a MadeLink>,
    plan: LinkPlan,
}

impl Planned<'_> {
    fn report(&mut self, name: &LinkName, reason: String) {
        self.plan.problems.insert(NetworkName::Made(name.clone()), reason);
    }

    fn link(&self, name: &LinkName) -> Option<&HostLink> {
        self.links.iter().find(|host| host.link.name == name.as_str())
    }

    /// A link that may carry others.
    fn lower(&self, name: &LinkName) -> Result<Link, String> {
        match self.link(name) {
            Some(host) if host.is_of_node || host.link.is_made => Ok(host.link.clone()),
            Some(_) => Err(format!("`{name}` is a link of another program")),
            None if self.names.contains(name.as_str()) => {
                Err(format!("`{name}` is not a link of Ethernet"))
            }
            None => Err(format!("there is no link `{name}`")),
        }
    }

    fn compare(&mut self, name: &LinkName, made: &MadeLink) {
        let found = self.link(name).cloned();
        let is_another = match &found {
            Some(found) => !found.link.is_made,
            None => self.names.contains(name.as_str()),
        };
        if is_another {
            self.report(name, format!("the node has another link `{name}`"));
            return;
        }
        let parent = match made {
            MadeLink::Vlan(vlan) => match self.lower(vlan.parent()) {
                Ok(parent) => Some(parent),
                Err(reason) => return self.report(name, reason),
            },
            MadeLink::Bridge(_) | MadeLink::Bond(_) | MadeLink::WireGuard(_) => None,
        };
        let parent_index = parent.as_ref().map(|parent| parent.index);
        let Some(found) = found else {
            let create = LinkAction::Create(name.clone(), made.clone(), parent_index);
            return self.plan.actions.push(create);
        };
        match difference(&found.link, made) {
            Difference::None if parent.is_none() || found.link.parent == parent_index => {}
            Difference::Options => {
                let set = LinkAction::SetOptions(found.link.index, name.clone(), made.clone());
                self.plan.actions.push(set);
            }
            _ => return self.plan.actions.push(LinkAction::Remove(found.link.index)),
        }
        self.hold_ports(name, made, found.link.index);
        if let (MadeLink::Bond(bond), LinkKind::Bond(_, primary)) = (made, &found.link.kind) {
            self.hold_primary(name, bond, found.link.index, *primary);
        }
        self.hold(name, made, &found, parent.as_ref());
    }

    /// Holds the ports of a link. Those that another program has added stay, if they are its own.
    fn hold_ports(&mut self, name: &LinkName, made: &MadeLink, index: u32) {
        let is_port = |link: &Link| {
            let mut ports = self.made.values().flat_map(|made| made.ports());
            ports.any(|port| port.as_str() == link.name)
        };
        let released = self.links.iter().filter(|HostLink { link, is_of_node, .. }| {
            link.master == Some(index) && (*is_of_node || link.is_made) && !is_port(link)
        });
        let released: Vec<_> = released.map(|host| LinkAction::Release(host.link.index)).collect();
        self.plan.actions.extend(released);
        for port in made.ports() {
            match self.lower(port) {
                Ok(link) => self.hold_port(name, made, index, &link),
                Err(reason) => self.report(name, reason),
            }
        }
    }

    fn hold_port(&mut self, name: &LinkName, made: &MadeLink, master: u32, port: &Link) {
        let link = name.clone();
        let stays_off = is_switched_off(self.wanted, &port.name);
        if port.master == Some(master) {
            if !port.up && !stays_off {
                self.plan.actions.push(LinkAction::SwitchOn(port.index, link));
            }
            return;
        }
        let other = self.links.iter().find(|host| port.master == Some(host.link.index));
        match other.filter(|other| !other.link.is_made) {
            Some(HostLink { link: Link { name: other, .. }, .. }) => {
                let reason = format!("`{}` is a port of `{other}` of another program", port.name);
                self.report(name, reason);
            }
            None => {
                let is_of_bond = matches!(made, MadeLink::Bond(_));
                let port = NewPort { index: port.index, is_on: port.up, stays_off, is_of_bond };
                self.plan.actions.push(LinkAction::Attach { port, master, link });
            }
        }
    }

    /// Holds the port that a bond prefers, once it is a port.
    fn hold_primary(&mut self, name: &LinkName, bond: &Bond, index: u32, found: Option<u32>) {
        let wanted = match bond.primary() {
            None => Some(0),
            Some(port) => self
                .link(port)
                .and_then(|port| (port.link.master == Some(index)).then_some(port.link.index)),
        };
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found.unwrap_or_default()) {
            self.plan.actions.push(LinkAction::SetPrimary(index, name.clone(), wanted));
        }
    }

    /// Holds the state and the MTU of a link.
    fn hold(&mut self, name: &LinkName, made: &MadeLink, found: &HostLink, parent: Option<&Link>) {
        let index = found.link.index;
        let is_off = is_switched_off(self.wanted, &found.link.name);
        if !found.link.up && !is_off && parent.is_none_or(|parent| parent.up) {
            self.plan.actions.push(LinkAction::SwitchOn(index, name.clone()));
        }
        let set = self.wanted.iter().find_map(|setting| match setting {
            NetworkSetting::Mtu(link, mtu) if link == name => Some(u32::from(mtu.bytes())),
            _ => None,
        });
        if let Some(Link { name: parent, mtu, .. }) = parent
            && set.is_some_and(|set| set > *mtu)
        {
            let reason = format!("its parent `{parent}` has an MTU of {mtu} bytes");
            self.plan.problems.insert(NetworkName::Mtu(name.clone()), reason);
            return;
        }
        let mtu = set.unwrap_or_else(|| self.usual_mtu(made, index, parent));
        let is_leased = set.is_none() && found.leased_mtu.is_some();
        if found.link.mtu != mtu && !is_leased {
            let (link, is_setting) = (name.clone(), set.is_some());
            self.plan.actions.push(LinkAction::SetMtu { index, link, mtu, is_setting });
        }
    }

    /// The MTU of a link that has none of a setting. The kernel lowers that of a VLAN with that of
    /// its parent, and does not raise it again; a bridge that once had one of a setting keeps it.
    /// A bond gives its own to its ports.
    fn usual_mtu(&self, made: &MadeLink, index: u32, parent: Option<&Link>) -> u32 {
        let ports = self.links.iter().filter(|host| host.link.master == Some(index));
        let usual = match made {
            MadeLink::Vlan(_) => parent.map(|parent| parent.mtu),
            MadeLink::Bridge(_) => ports.map(|host| host.link.mtu).min(),
            MadeLink::Bond(_) => None,
            MadeLink::WireGuard(_) => Some(WIREGUARD_MTU),
        };
        usual.unwrap_or(ETHERNET_MTU)
    }
}
