//! Which routing rules to set and to remove. It is pure but for [`hold`].

mod kernel;

use std::collections::BTreeMap;
use std::net::IpAddr;

use osbuild_protocol::{IpFamily, NetworkName, NetworkSetting, RoutingRule, Subnet};

use crate::netlink::Netlink;

/// The action of a rule that names a table (`FR_ACT_TO_TBL`).
pub const TO_TABLE: u8 = 1;

/// A rule of the kernel that this program has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRule {
    /// The version of IP of its packets.
    pub family: IpFamily,
    /// Its place among the others.
    pub priority: u32,
    /// The number of the table.
    pub table: u32,
    /// The network that packets come from: its first address, and the length of its prefix.
    pub from: Option<(IpAddr, u8)>,
    /// The network that they go to.
    pub to: Option<(IpAddr, u8)>,
    /// The link that they come in through.
    pub iif: Option<String>,
    /// The link that their program has bound itself to.
    pub oif: Option<String>,
    /// The mark that they have, and which of its bits count.
    pub fwmark: Option<(u32, u32)>,
    /// The action, which is to use the table in rules of settings (`FR_ACT_…`).
    pub action: u8,
    /// Whether it asks for something that no setting can.
    pub has_more: bool,
}

impl From<&RoutingRule> for FoundRule {
    fn from(rule: &RoutingRule) -> Self {
        let network = |subnet: Subnet| (subnet.address(), subnet.prefix_length());
        Self {
            family: rule.family(),
            priority: rule.priority().number(),
            table: rule.table().number(),
            from: rule.from().map(network),
            to: rule.to().map(network),
            iif: rule.iif().map(ToString::to_string),
            oif: rule.oif().map(ToString::to_string),
            fwmark: rule.fwmark().map(|mark| (mark.value(), mark.mask())),
            action: TO_TABLE,
            has_more: false,
        }
    }
}

/// A change of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleAction {
    /// Remove a rule that no setting names, or one that is there twice.
    Remove(FoundRule),
    /// Set a rule.
    Put(NetworkName, FoundRule),
}

/// The changes, in this order: the kernel removes the first rule that has what a request names, so
/// nothing that is removed stands beside what replaces it.
fn plan(wanted: &[NetworkSetting], found: &[FoundRule]) -> Vec<RuleAction> {
    let mut missing: Vec<(NetworkName, FoundRule)> = wanted_rules(wanted).collect();
    let mut actions = Vec::new();
    for rule in found {
        match missing.iter().position(|(_, wanted)| wanted == rule) {
            Some(at) => drop(missing.swap_remove(at)),
            None => actions.push(RuleAction::Remove(rule.clone())),
        }
    }
    actions.extend(missing.into_iter().map(|(name, rule)| RuleAction::Put(name, rule)));
    actions
}

fn wanted_rules(wanted: &[NetworkSetting]) -> impl Iterator<Item = (NetworkName, FoundRule)> {
    wanted.iter().filter_map(|setting| match setting {
        NetworkSetting::RoutingRule(rule) => Some((setting.name(), rule.into())),
        _ => None,
    })
}

/// The state of the rules after [`hold`].
#[derive(Debug, Default)]
pub struct HeldRules {
    /// Why rules are not in effect.
    pub problems: BTreeMap<NetworkName, String>,
    /// Whether the kernel has refused a change.
    pub refused: bool,
    /// Whether a rule was set or removed.
    pub changed: bool,
}

/// Compares the rules of the kernel with the settings, and changes what differs.
pub fn hold(wanted: &[NetworkSetting], netlink: &mut Netlink) -> HeldRules {
    let mut held = HeldRules::default();
    let found = match netlink.setting_rules() {
        Ok(found) => found,
        Err(error) => {
            // A kernel without routing rules has none of this program.
            held.problems = wanted_rules(wanted)
                .map(|(name, _)| (name, format!("cannot list routing rules: {error}")))
                .collect();
            held.refused = !held.problems.is_empty();
            return held;
        }
    };
    for action in plan(wanted, &found) {
        held.changed = true;
        let (name, outcome) = match &action {
            RuleAction::Remove(rule) => (None, netlink.delete_rule(rule)),
            RuleAction::Put(name, rule) => (Some(name), netlink.put_rule(rule)),
        };
        if let Err(error) = outcome {
            eprintln!("cannot carry out {action:?}: {error}");
            held.refused = true;
            held.problems.extend(name.map(|name| (name.clone(), error.to_string())));
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_protocol::Setting;

    fn settings(lines: &[&str]) -> Vec<NetworkSetting> {
        let settings = lines.iter().map(|line| match Setting::parse(line) {
            Ok(Setting::Network(setting)) => setting,
            other => panic!("{line}: {other:?}"),
        });
        settings.collect()
    }

    fn found(line: &str) -> FoundRule {
        wanted_rules(&settings(&[line])).next().unwrap().1
    }

    const ONE: &str = "routing-rule ipv4 2000 table=100 from=10.0.0.0/8";
    const OTHER: &str = "routing-rule ipv6 2000 table=100 fwmark=0x1/0xff";

    #[test]
    fn a_rule_that_is_missing_is_set_and_one_that_is_there_stays() {
        let wanted = settings(&[ONE, OTHER]);
        assert_eq!(plan(&wanted, &[found(ONE), found(OTHER)]), []);
        let put = RuleAction::Put(wanted[1].name(), found(OTHER));
        assert_eq!(plan(&wanted, &[found(ONE)]), [put]);
    }

    #[test]
    fn a_rule_that_differs_goes_before_the_one_in_its_place() {
        let wanted = settings(&[ONE]);
        let more = FoundRule { has_more: true, ..found(ONE) };
        for other in [found("routing-rule ipv4 2000 table=101 from=10.0.0.0/8"), more] {
            let put = RuleAction::Put(wanted[0].name(), found(ONE));
            let found = std::slice::from_ref(&other);
            assert_eq!(plan(&wanted, found), [RuleAction::Remove(other.clone()), put]);
        }
    }

    #[test]
    fn a_rule_that_is_there_twice_or_not_wanted_is_removed() {
        let remove = [RuleAction::Remove(found(ONE))];
        assert_eq!(plan(&settings(&[ONE]), &[found(ONE), found(ONE)]), remove);
        assert_eq!(plan(&[], &[found(ONE)]), remove);
    }
}
