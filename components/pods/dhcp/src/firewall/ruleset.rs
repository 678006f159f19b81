//! The rules of settings as a table of nftables. It is pure.

use std::net::IpAddr;

use osbuild_nftables::{
    Chain, ChainKind, Decision, Expression, Header, Hook, KeyKind, Meta, Rule, Set, Table,
};
use osbuild_protocol::{FirewallRule, LinkPattern, NetworkSetting, RuleAction, Subnet};

/// The chain, and its place among others at the hook: before those of other programs.
const CHAIN: &str = "input";
const PRIORITY: i32 = -10;

/// The states of a connection, as bits: a packet of it went the other way before, or it belongs to
/// one that did (`NF_CT_STATE_BIT`).
const ESTABLISHED: u32 = 1 << 1;
const RELATED: u32 = 1 << 2;

/// Protocols (IANA).
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// The types of ICMPv6 that a host needs (RFC 4890, 4.4.1), but for echo: errors; listeners of
/// multicast, routers and neighbours; their inverse discovery and the second version of listeners;
/// certificates of routers; multicast routers.
const ICMPV6_TYPES: [(u8, u8); 5] = [(1, 4), (130, 136), (141, 143), (148, 149), (151, 153)];

/// The ports of a DHCP server and of a client, as they begin a UDP header; and those of DHCPv6.
const DHCP: [u8; 4] = ports(67, 68);
const DHCPV6: [u8; 4] = ports(547, 546);

/// Loads the port that a packet goes to, which stands second in all headers with ports.
pub(super) const PORT: Expression = payload(Header::Transport, 2, 2);

/// The families of IP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// The table with the firewall rules among these settings in their order; none without a rule.
pub fn table(name: &str, settings: &[NetworkSetting]) -> Option<Table> {
    let rules = settings.iter().filter_map(|setting| match setting {
        NetworkSetting::FirewallRule(rule) => Some(rule),
        _ => None,
    });
    let mut sorted: Vec<&FirewallRule> = rules.collect();
    sorted.sort_by(|one, other| one.order().cmp(&other.order()));
    let rules: Vec<Rule> = sorted.into_iter().flat_map(of_setting).collect();
    let hook = Hook {
        kind: ChainKind::Filter,
        number: Hook::INPUT,
        priority: PRIORITY,
        policy: Decision::Accept,
    };
    (!rules.is_empty()).then(|| Table {
        name: name.to_owned(),
        flags: 0,
        chains: vec![Chain {
            name: CHAIN.to_owned(),
            hook: Some(hook),
            rules: always().into_iter().chain(rules).collect(),
        }],
    })
}

/// The rules before those of settings. They accept the packets without which nobody could reach the
/// node, or the node nobody.
fn always() -> [Rule; 5] {
    let accept = |comment: &str, mut expressions: Vec<Expression>| {
        expressions.push(Expression::Decision(Decision::Accept));
        Rule { comment: format!("always: {comment}"), expressions }
    };
    let is_meta = |meta, value| [Expression::Meta(meta), Expression::Equal(value)];
    let udp = |family: Family, ports: [u8; 4]| {
        let mut expressions = family.expressions();
        expressions.extend(is_meta(Meta::Protocol, vec![UDP]));
        expressions.extend([payload(Header::Transport, 0, 4), Expression::Equal(ports.to_vec())]);
        expressions
    };
    let mut neighbours = Family::V6.expressions();
    neighbours.extend(is_meta(Meta::Protocol, vec![ICMPV6]));
    let types = ICMPV6_TYPES.map(|(first, last)| (vec![first], vec![last]));
    let types = Set::new(KeyKind::Icmpv6Type, types);
    neighbours.extend([payload(Header::Transport, 0, 1), Expression::Lookup(types)]);
    let state = vec![
        Expression::ConntrackState,
        Expression::Mask((ESTABLISHED | RELATED).to_ne_bytes().to_vec()),
        Expression::Unequal(vec![0; 4]),
    ];
    [
        accept("loopback", is_meta(Meta::InputLink, link_name("lo")).to_vec()),
        accept("replies", state),
        accept("neighbours", neighbours),
        accept("DHCP", udp(Family::V4, DHCP)),
        accept("DHCPv6", udp(Family::V6, DHCPV6)),
    ]
}

/// A rule of a setting: one for each family that it tells apart.
fn of_setting(rule: &FirewallRule) -> Vec<Rule> {
    let families = [Family::V4, Family::V6].into_iter().filter(|family| family.is_of(rule));
    let families: Vec<Option<Family>> = match rule.sources().is_empty() {
        true if families.clone().count() == 2 => vec![None],
        _ => families.map(Some).collect(),
    };
    let rules = families.into_iter().map(|family| Rule {
        comment: rule.name().to_string(),
        expressions: expressions(rule, family),
    });
    rules.collect()
}

fn expressions(rule: &FirewallRule, family: Option<Family>) -> Vec<Expression> {
    let mut expressions = Vec::new();
    if !rule.links().is_empty() {
        let links = rule.links().iter().map(link_range);
        let links = Set::new(KeyKind::LinkName, links);
        expressions.extend([Expression::Meta(Meta::InputLink), Expression::Lookup(links)]);
    }
    if let Some(family) = family {
        expressions.extend(family.expressions());
        let sources = rule.sources().iter().filter(|source| family.has(source.address()));
        let ranges: Vec<_> = sources.map(source_range).collect();
        if !ranges.is_empty() {
            let sources = Set::new(family.key_kind(), ranges);
            expressions.extend([family.source(), Expression::Lookup(sources)]);
        }
    }
    if let Some(protocol) = rule.protocol() {
        let number = vec![protocol.number()];
        expressions.extend([Expression::Meta(Meta::Protocol), Expression::Equal(number)]);
    }
    if !rule.ports().is_empty() {
        let bytes = |port: u16| port.to_be_bytes().to_vec();
        let ranges = rule.ports().iter().map(|range| (bytes(range.first()), bytes(range.last())));
        let ports = Set::new(KeyKind::Port, ranges);
        expressions.extend([PORT, Expression::Lookup(ports)]);
    }
    expressions.push(Expression::Decision(match rule.action() {
        RuleAction::Accept => Decision::Accept,
        RuleAction::Drop => Decision::Drop,
    }));
    expressions
}

impl Family {
    /// Whether a packet of the family can match a rule.
    fn is_of(self, rule: &FirewallRule) -> bool {
        let sources = rule.sources();
        let has_source = sources.is_empty() || sources.iter().any(|one| self.has(one.address()));
        let has_protocol = rule.protocol().is_none_or(|protocol| match self {
            Self::V4 => protocol.is_of_ipv4(),
            Self::V6 => protocol.is_of_ipv6(),
        });
        has_source && has_protocol
    }

    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    pub(super) fn has(self, address: IpAddr) -> bool {
        self == Self::of(address)
    }

    pub(super) fn expressions(self) -> Vec<Expression> {
        let number = match self {
            Self::V4 => Meta::IPV4,
            Self::V6 => Meta::IPV6,
        };
        vec![Expression::Meta(Meta::Family), Expression::Equal(vec![number])]
    }

    pub(super) fn key_kind(self) -> KeyKind {
        match self {
            Self::V4 => KeyKind::Ipv4,
            Self::V6 => KeyKind::Ipv6,
        }
    }

    /// Loads the source of a packet (RFC 791, RFC 8200).
    pub(super) fn source(self) -> Expression {
        match self {
            Self::V4 => payload(Header::Network, 12, 4),
            Self::V6 => payload(Header::Network, 8, 16),
        }
    }

    /// Loads the destination, which follows the source.
    pub(super) fn destination(self) -> Expression {
        match self {
            Self::V4 => payload(Header::Network, 16, 4),
            Self::V6 => payload(Header::Network, 24, 16),
        }
    }
}

const fn payload(header: Header, offset: u32, length: u32) -> Expression {
    Expression::Payload { header, offset, length }
}

/// The bytes of an address in a packet.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(super) fn source_range(source: &Subnet) -> (Vec<u8>, Vec<u8>) {
    (octets(source.address()), octets(source.last()))
}

/// The names of links that match: the one, or all that begin with it.
pub(super) fn link_range(pattern: &LinkPattern) -> (Vec<u8>, Vec<u8>) {
    let first = link_name(pattern.name());
    let mut last = first.clone();
    if pattern.is_start() {
        last[pattern.name().len()..].fill(u8::MAX);
    }
    (first, last)
}

/// A name of a link as the kernel loads it.
fn link_name(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(KeyKind::LinkName.length(), 0);
    bytes
}

const fn ports(source: u16, destination: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (source.to_be_bytes(), destination.to_be_bytes());
    [a, b, c, d]
}
