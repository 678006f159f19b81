//! The effects of several rules together.

use super::super::{NetworkSetting, Subnet};
use super::{FirewallRule, RuleAction, RuleProtocol};

/// Why the rules among these settings exclude each other, if two do: one accepts what the other
/// drops, at the same place.
pub fn firewall_conflict<'a>(
    settings: impl IntoIterator<Item = &'a NetworkSetting>,
) -> Option<String> {
    let rules = in_order(settings);
    let pairs = rules
        .iter()
        .enumerate()
        .flat_map(|(at, one)| rules[at + 1..].iter().map(move |other| (*one, *other)));
    pairs.into_iter().find_map(|(one, other)| reason(one, other))
}

/// The rule among these settings that closes a TCP port to everybody on the network, if one does.
pub fn rule_that_closes<'a>(
    settings: impl IntoIterator<Item = &'a NetworkSetting>,
    port: u16,
) -> Option<&'a FirewallRule> {
    let is_about = |rule: &FirewallRule| {
        let mut ports = rule.ports().iter();
        rule.protocol().is_none_or(|protocol| protocol == RuleProtocol::TCP)
            && (rule.ports().is_empty()
                || ports.any(|range| (range.first()..=range.last()).contains(&port)))
    };
    let about = in_order(settings).into_iter().filter(|rule| is_about(rule));
    let is_about_all = |rule: &FirewallRule| rule.sources().is_empty() && rule.links().is_empty();
    let mut decisive =
        about.filter(|rule| rule.action() == RuleAction::Accept || is_about_all(rule));
    decisive.next().filter(|rule| rule.action() == RuleAction::Drop)
}

/// The rules among settings in their order.
fn in_order<'a>(settings: impl IntoIterator<Item = &'a NetworkSetting>) -> Vec<&'a FirewallRule> {
    let rules = settings.into_iter().filter_map(|setting| match setting {
        NetworkSetting::FirewallRule(rule) => Some(rule),
        _ => None,
    });
    let mut rules: Vec<&FirewallRule> = rules.collect();
    rules.sort_by(|one, other| one.order().cmp(&other.order()));
    rules
}

fn reason(drops: &FirewallRule, accepts: &FirewallRule) -> Option<String> {
    let (one, other) = (drops.name(), accepts.name());
    match (drops.is_of_the_rest(), accepts.is_of_the_rest()) {
        (true, true) => Some(format!("`{one}` and `{other}` are both about all other packets")),
        (false, false) if overlap(drops, accepts) => Some(format!(
            "`{one}` drops packets that `{other}` accepts, both with the priority {}: give the one \
             that counts a lower number",
            drops.priority().number()
        )),
        _ => None,
    }
}

/// Whether a packet can match both rules, which are at the same place and do something else.
fn overlap(one: &FirewallRule, other: &FirewallRule) -> bool {
    one.action() != other.action()
        && one.priority() == other.priority()
        && one.protocol().is_none_or(|protocol| other.protocol().is_none_or(|two| protocol == two))
        && overlaps(one.ports(), other.ports(), |one, other| one.overlaps(other))
        && overlaps(one.sources(), other.sources(), Subnet::overlaps)
        && overlaps(one.links(), other.links(), |one, other| one.overlaps(other))
        && families_overlap(one, other)
}

/// Whether two lists have something in common. An empty list has everything.
fn overlaps<T>(one: &[T], other: &[T], overlap: impl Fn(&T, &T) -> bool) -> bool {
    let is_in_common = |entry: &T| other.iter().any(|another| overlap(entry, another));
    one.is_empty() || other.is_empty() || one.iter().any(is_in_common)
}

/// Whether the sources of one have a family that the protocol of the other has.
fn families_overlap(one: &FirewallRule, other: &FirewallRule) -> bool {
    let has = |rule: &FirewallRule, is_ipv4: bool| {
        let mut sources = rule.sources().iter();
        let of_protocol = rule.protocol().is_none_or(|protocol| match is_ipv4 {
            true => protocol.is_of_ipv4(),
            false => protocol.is_of_ipv6(),
        });
        let of_sources = rule.sources().is_empty()
            || sources.any(|source| source.address().is_ipv4() == is_ipv4);
        of_protocol && of_sources
    };
    [true, false].into_iter().any(|is_ipv4| has(one, is_ipv4) && has(other, is_ipv4))
}
