//! The NAT rules of settings as a table of nftables. It is pure.

use std::net::IpAddr;

use osbuild_nftables::{
    Chain, ChainKind, Decision, Expression, Family, Hook, KeyKind, Meta, Rule, Set, Side, Table,
};
use osbuild_protocol::{Forwarding, Nat, NetworkSetting, Subnet, Translation};

use super::ruleset::{self, link_range, octets, source_range};

/// The chains in the order of their names, and their places among others at their hooks: behind
/// those of kube-proxy and of network plugins, which translate what they know first. The kernel
/// translates each end of a connection once.
const POSTROUTING: &str = "postrouting";
const POSTROUTING_PRIORITY: i32 = 110;
const PREROUTING: &str = "prerouting";
const PREROUTING_PRIORITY: i32 = -90;

/// The table with the NAT rules among these settings; none without a rule.
pub fn table(name: &str, settings: &[NetworkSetting]) -> Option<Table> {
    let rules = settings.iter().filter_map(|setting| match setting {
        NetworkSetting::Nat(rule) => Some(rule),
        _ => None,
    });
    let mut sorted: Vec<&Nat> = rules.collect();
    // A masquerade translates what no fixed source is for.
    sorted.sort_by_key(|rule| {
        (matches!(rule.translation(), Translation::Masquerade(_)), rule.name().clone())
    });
    let (mut leaving, mut arriving) = (Vec::new(), Vec::new());
    for rule in sorted {
        match rule.translation() {
            Translation::Masquerade(sources) | Translation::Source(sources, _) => {
                leaving.extend(of_sources(rule, sources));
            }
            Translation::Destination(forwarding) => arriving.push(of_port(rule, forwarding)),
        }
    }
    let chain = |name: &str, number, priority, rules| Chain {
        name: name.to_owned(),
        hook: Some(Hook { kind: ChainKind::Nat, number, priority, policy: Decision::Accept }),
        rules,
    };
    let chains = [
        chain(POSTROUTING, Hook::POSTROUTING, POSTROUTING_PRIORITY, leaving),
        chain(PREROUTING, Hook::PREROUTING, PREROUTING_PRIORITY, arriving),
    ];
    let chains: Vec<Chain> = chains.into_iter().filter(|chain| !chain.rules.is_empty()).collect();
    (!chains.is_empty()).then(|| Table { name: name.to_owned(), flags: 0, chains })
}

/// A rule for each family of packets that leave.
fn of_sources(rule: &Nat, sources: &[Subnet]) -> Vec<Rule> {
    let rules = [ruleset::Family::V4, ruleset::Family::V6].into_iter().filter_map(|family| {
        let sources = sources.iter().filter(|source| family.has(source.address()));
        let ranges: Vec<_> = sources.map(source_range).collect();
        if ranges.is_empty() {
            return None;
        }
        let mut expressions = of_link(rule, Meta::OutputLink);
        expressions.extend(family.expressions());
        let sources = Set::new(family.key_kind(), ranges);
        expressions.extend([family.source(), Expression::Lookup(sources)]);
        // The node's own connections have an address of the node already.
        expressions.push(Expression::AddressType(Side::Source));
        expressions.push(Expression::Unequal(Expression::LOCAL.to_ne_bytes().to_vec()));
        match rule.to() {
            None => expressions.push(Expression::Masquerade),
            Some(to) => expressions
                .extend([Expression::Value(octets(to)), translate(Side::Source, to, false)]),
        }
        Some(Rule { comment: rule.name().to_string(), expressions })
    });
    rules.collect()
}

/// The rule for packets to a port of the node.
fn of_port(rule: &Nat, forwarding: &Forwarding) -> Rule {
    let Forwarding { protocol, address, port, to, to_port } = *forwarding;
    let family = ruleset::Family::of(to);
    let mut expressions = of_link(rule, Meta::InputLink);
    expressions.extend(family.expressions());
    match address {
        Some(address) => {
            expressions.extend([family.destination(), Expression::Equal(octets(address))]);
        }
        // Others are those of Services, of pods, and of hosts behind the node.
        None => expressions.extend([
            Expression::AddressType(Side::Destination),
            Expression::Equal(Expression::LOCAL.to_ne_bytes().to_vec()),
        ]),
    }
    let number = vec![protocol.number()];
    expressions.extend([Expression::Meta(Meta::Protocol), Expression::Equal(number)]);
    expressions.extend([ruleset::PORT, Expression::Equal(port.to_be_bytes().to_vec())]);
    expressions.extend([
        Expression::Value(octets(to)),
        Expression::SecondValue(to_port.to_be_bytes().to_vec()),
        translate(Side::Destination, to, true),
    ]);
    Rule { comment: rule.name().to_string(), expressions }
}

fn of_link(rule: &Nat, meta: Meta) -> Vec<Expression> {
    let Some(link) = rule.link() else { return Vec::new() };
    let links = Set::new(KeyKind::LinkName, [link_range(link)]);
    vec![Expression::Meta(meta), Expression::Lookup(links)]
}

fn translate(side: Side, to: IpAddr, has_port: bool) -> Expression {
    let family = if to.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
    Expression::Translate { side, family, has_port }
}
