//! The settings of links, addresses, routes, routing rules, the firewall and NAT. The pod `dhcp`
//! holds the host to them.

mod address;
mod firewall;
mod link_name;
mod link_state;
mod made;
mod mtu;
mod nat;
mod options;
mod route;
mod routing_rule;
mod subnet;
mod table;
mod wanted;

pub use address::StaticAddress;
pub use firewall::{
    FirewallRule, LinkPattern, PortRange, RuleAction, RuleName, RuleOptions, RuleOrder,
    RulePriority, RuleProtocol, firewall_conflict, rule_that_closes,
};
pub use link_name::LinkName;
pub use link_state::LinkState;
pub use made::{
    AllowedNetwork, Bond, BondMode, BondOptions, Bridge, HashPolicy, KEY, LacpRate, MadeLink,
    PeerOptions, PeerState, Ports, PublicKey, SecretKey, Vlan, VlanProtocol, WireGuard,
    WireGuardOptions, WireGuardPeer, WireGuardState, link_conflicts,
};
pub use mtu::Mtu;
pub use nat::{Forwarding, Nat, NatOptions, Translation, nat_conflict};
pub use route::{Metric, StaticRoute};
pub use routing_rule::{
    IpFamily, PacketMark, RoutingPriority, RoutingRule, RoutingRuleOptions, RuleLink,
};
pub use subnet::Subnet;
pub use table::RouteTable;
pub use wanted::NetworkSettings;

use std::fmt;
use std::net::IpAddr;

use crate::Refusal;

/// The maximum number of settings of each [kind](NetworkKind) that `init` holds.
pub const MAX_NETWORK_SETTINGS: usize = 32;

/// A setting of the network, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkSetting {
    /// An address of a link.
    Address(StaticAddress),
    /// A route.
    Route(StaticRoute),
    /// The largest packet of a link.
    Mtu(LinkName, Mtu),
    /// Whether a link asks for an address with DHCP.
    Dhcp(LinkName, bool),
    /// Whether a link is on.
    State(LinkName, LinkState),
    /// A link that the node makes.
    Made(LinkName, MadeLink),
    /// A rule for packets to the node.
    FirewallRule(FirewallRule),
    /// A rule that chooses the table of routes for a packet.
    RoutingRule(RoutingRule),
    /// A rule that translates addresses.
    Nat(Nat),
}

/// A setting of the network, without its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkName {
    /// An address of a link. Its value is the length of its prefix.
    Address(LinkName, IpAddr),
    /// A route to a subnet. Another metric or another table is another route.
    Route(Subnet, Metric, RouteTable),
    /// The largest packet of a link.
    Mtu(LinkName),
    /// Whether a link asks for an address with DHCP.
    Dhcp(LinkName),
    /// Whether a link is on.
    State(LinkName),
    /// A link that the node makes.
    Made(LinkName),
    /// A rule for packets to the node.
    FirewallRule(RuleName),
    /// A rule that chooses the table of routes for a packet.
    RoutingRule(IpFamily, RoutingPriority),
    /// A rule that translates addresses.
    Nat(RuleName),
}

/// The kind of object that a setting of the network configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// Addresses.
    Address,
    /// Routes.
    Route,
    /// Links.
    Link,
    /// Rules for packets to the node.
    FirewallRule,
    /// Rules that choose the table of routes for a packet.
    RoutingRule,
    /// Rules that translate addresses.
    Nat,
}

impl NetworkKind {
    const ALL: [Self; 6] =
        [Self::Address, Self::Route, Self::Link, Self::FirewallRule, Self::RoutingRule, Self::Nat];

    /// The word for it in lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Route => "route",
            Self::Link => "link",
            Self::FirewallRule => "firewall-rule",
            Self::RoutingRule => "routing-rule",
            Self::Nat => "nat",
        }
    }

    /// The kind with this word.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl NetworkName {
    /// Reads the two words that follow that of the kind, perhaps with the table of a route, or the
    /// name of a rule, and returns the text behind them.
    pub(super) fn split(kind: NetworkKind, line: &str) -> Result<(Self, &str), Refusal> {
        let (first, behind) = line.split_once(' ').unwrap_or((line, ""));
        let (second, rest) = behind.split_once(' ').unwrap_or((behind, ""));
        let name = match (kind, second) {
            (NetworkKind::FirewallRule, _) => {
                return Ok((Self::FirewallRule(RuleName::parse(first)?), behind));
            }
            (NetworkKind::Nat, _) => return Ok((Self::Nat(RuleName::parse(first)?), behind)),
            (NetworkKind::Address, address) => {
                let refuse = || Refusal::malformed(format!("`{address}` is not an IP address"));
                Self::Address(LinkName::parse(first)?, address.parse().map_err(|_| refuse())?)
            }
            (NetworkKind::Route, metric) => {
                let (table, rest) = RouteTable::split(rest)?;
                let name = Self::Route(Subnet::parse(first)?, Metric::parse(metric)?, table);
                return Ok((name, rest));
            }
            (NetworkKind::RoutingRule, priority) => {
                Self::RoutingRule(IpFamily::parse(first)?, RoutingPriority::parse(priority)?)
            }
            (NetworkKind::Link, "mtu") => Self::Mtu(LinkName::parse(first)?),
            (NetworkKind::Link, "dhcp") => Self::Dhcp(LinkName::parse(first)?),
            (NetworkKind::Link, "state") => Self::State(LinkName::parse(first)?),
            (NetworkKind::Link, "made") => Self::Made(LinkName::parse(first)?),
            (NetworkKind::Link, _) => {
                let settings = "a link has the settings `mtu`, `dhcp`, `state` and `made`";
                return Err(Refusal::malformed(settings));
            }
        };
        Ok((name, rest))
    }

    /// The kind of object that it configures.
    pub fn kind(&self) -> NetworkKind {
        match self {
            Self::Address(..) => NetworkKind::Address,
            Self::Route(..) => NetworkKind::Route,
            Self::Mtu(_) | Self::Dhcp(_) | Self::State(_) | Self::Made(_) => NetworkKind::Link,
            Self::FirewallRule(_) => NetworkKind::FirewallRule,
            Self::RoutingRule(..) => NetworkKind::RoutingRule,
            Self::Nat(_) => NetworkKind::Nat,
        }
    }
}

impl NetworkSetting {
    /// Reads the value of a setting.
    pub(super) fn parse(name: NetworkName, value: &str) -> Result<Self, Refusal> {
        Ok(match name {
            NetworkName::Address(link, address) => {
                let address = format!("{address}/{value}");
                Self::Address(StaticAddress::parse(link.as_str(), &address)?)
            }
            NetworkName::Route(destination, metric, table) => {
                Self::Route(StaticRoute::parse(destination, metric, value)?.in_table(table))
            }
            NetworkName::Mtu(link) => Self::Mtu(link, Mtu::parse(value)?),
            NetworkName::Dhcp(link) => match value {
                "on" => Self::Dhcp(link, true),
                "off" => Self::Dhcp(link, false),
                _ => return Err(Refusal::malformed("`dhcp` is `on` or `off`")),
            },
            NetworkName::State(link) => Self::State(link, LinkState::parse(value)?),
            NetworkName::Made(link) => Self::made(link, MadeLink::parse(value)?)?,
            NetworkName::FirewallRule(name) => {
                Self::FirewallRule(FirewallRule::parse_words(&name, value)?)
            }
            NetworkName::Nat(name) => Self::Nat(Nat::parse_words(&name, value)?),
            NetworkName::RoutingRule(family, priority) => {
                Self::RoutingRule(RoutingRule::parse_words(family, priority, value)?)
            }
        })
    }

    /// A link that the node makes.
    ///
    /// # Errors
    /// Other programs make links with such a name.
    pub fn made(link: LinkName, made: MadeLink) -> Result<Self, Refusal> {
        made::check_name(&link).map(|()| Self::Made(link, made))
    }

    /// The settings of one link: the largest packet in bytes, whether it asks for an address with
    /// DHCP, whether it is on, and what it is if the node makes it.
    ///
    /// # Errors
    /// There is none, or one is malformed.
    pub fn of_link(
        link: &str,
        mtu: Option<u32>,
        dhcp: Option<bool>,
        state: Option<LinkState>,
        made: Option<MadeLink>,
    ) -> Result<Vec<Self>, Refusal> {
        let link = LinkName::parse(link)?;
        let mtu = mtu.map(Mtu::new).transpose()?.map(|mtu| Self::Mtu(link.clone(), mtu));
        if let (Some(true), Some(MadeLink::WireGuard(_))) = (dhcp, &made) {
            let reason = format!("`{link}` is a link of WireGuard, which has no DHCP");
            return Err(Refusal::malformed(reason));
        }
        let dhcp = dhcp.map(|dhcp| Self::Dhcp(link.clone(), dhcp));
        let state = state.map(|state| Self::State(link.clone(), state));
        let made = made.map(|made| Self::made(link.clone(), made)).transpose()?;
        match mtu.into_iter().chain(dhcp).chain(state).chain(made).collect::<Vec<_>>() {
            settings if settings.is_empty() => {
                let reason = format!(
                    "`{link}` has none of `mtu`, `dhcp`, `state`, `vlan`, `bridge`, `bond` and \
                     `wireguard`"
                );
                Err(Refusal::malformed(reason))
            }
            settings => Ok(settings),
        }
    }

    /// The setting without its value.
    pub fn name(&self) -> NetworkName {
        match self {
            Self::Address(address) => {
                NetworkName::Address(address.link().clone(), address.address())
            }
            Self::Route(route) => {
                NetworkName::Route(route.destination(), route.metric(), route.table())
            }
            Self::Mtu(link, _) => NetworkName::Mtu(link.clone()),
            Self::Dhcp(link, _) => NetworkName::Dhcp(link.clone()),
            Self::State(link, _) => NetworkName::State(link.clone()),
            Self::Made(link, _) => NetworkName::Made(link.clone()),
            Self::FirewallRule(rule) => NetworkName::FirewallRule(rule.name().clone()),
            Self::RoutingRule(rule) => NetworkName::RoutingRule(rule.family(), rule.priority()),
            Self::Nat(rule) => NetworkName::Nat(rule.name().clone()),
        }
    }

    /// The link that it is about; a rule is about none or several.
    pub fn link(&self) -> Option<&LinkName> {
        match self {
            Self::Address(address) => Some(address.link()),
            Self::Route(route) => Some(route.link()),
            Self::Mtu(link, _)
            | Self::Dhcp(link, _)
            | Self::State(link, _)
            | Self::Made(link, _) => Some(link),
            Self::FirewallRule(_) | Self::RoutingRule(_) | Self::Nat(_) => None,
        }
    }

    /// The value as words with one space between, without secrets.
    pub fn shown(&self) -> String {
        match self {
            Self::Made(_, made) => made.redacted(),
            _ => self.value(),
        }
    }

    /// The value as words with one space between, with its secrets if it has some.
    pub fn value(&self) -> String {
        match self {
            Self::Address(address) => address.prefix_length().to_string(),
            Self::Route(route) => route.words(),
            Self::Mtu(_, mtu) => mtu.to_string(),
            Self::Dhcp(_, true) => "on".to_owned(),
            Self::Dhcp(_, false) => "off".to_owned(),
            Self::State(_, state) => state.to_string(),
            Self::Made(_, made) => made.words(),
            Self::FirewallRule(rule) => rule.words(),
            Self::RoutingRule(rule) => rule.words(),
            Self::Nat(rule) => rule.words(),
        }
    }
}

impl fmt::Display for NetworkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind().word();
        match self {
            Self::Address(link, address) => write!(f, "{kind} {link} {address}"),
            Self::Route(destination, metric, table) if table.is_main() => {
                write!(f, "{kind} {destination} {metric}")
            }
            Self::Route(destination, metric, table) => {
                write!(f, "{kind} {destination} {metric} table {table}")
            }
            Self::Mtu(link) => write!(f, "{kind} {link} mtu"),
            Self::Dhcp(link) => write!(f, "{kind} {link} dhcp"),
            Self::State(link) => write!(f, "{kind} {link} state"),
            Self::Made(link) => write!(f, "{kind} {link} made"),
            Self::FirewallRule(name) | Self::Nat(name) => write!(f, "{kind} {name}"),
            Self::RoutingRule(family, priority) => write!(f, "{kind} {family} {priority}"),
        }
    }
}
