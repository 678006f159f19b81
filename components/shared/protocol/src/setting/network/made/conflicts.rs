//! Links that cannot be made together.

use std::collections::BTreeMap;

use super::super::{LinkName, NetworkSetting};
use super::MadeLink;

/// The links to make, by their names.
type MadeLinks<'a> = BTreeMap<&'a LinkName, &'a MadeLink>;

/// Which of the links that these settings make cannot be made, each with the reason: all of those
/// that would carry each other, and of others that exclude each other the one whose name comes
/// later.
pub fn link_conflicts<'a>(
    settings: impl IntoIterator<Item = &'a NetworkSetting>,
) -> BTreeMap<LinkName, String> {
    let made: MadeLinks = settings
        .into_iter()
        .filter_map(|setting| match setting {
            NetworkSetting::Made(name, made) => Some((name, made)),
            _ => None,
        })
        .collect();
    let conflict = |name: &LinkName| {
        let of_pairs = || twin(name, &made).or_else(|| shared_port(name, &made));
        let of_kinds = || bridge_in_bridge(name, &made).or_else(|| on_wireguard(name, &made));
        cycle(name, &made).or_else(of_pairs).or_else(of_kinds)
    };
    made.keys().filter_map(|name| Some(((*name).clone(), conflict(name)?))).collect()
}

/// Whether the link would carry itself.
fn cycle(name: &LinkName, made: &MadeLinks) -> Option<String> {
    let mut carries: Vec<&LinkName> = made.get(name)?.lower_links().collect();
    if carries.contains(&name) {
        return Some(format!("`{name}` cannot carry itself"));
    }
    let mut at = 0;
    while let Some(lower) = carries.get(at).copied() {
        at += 1;
        for next in made.get(lower).into_iter().flat_map(|lower| lower.lower_links()) {
            if next == name {
                return Some(format!("`{name}` and `{lower}` cannot carry each other"));
            }
            if !carries.contains(&next) {
                carries.push(next);
            }
        }
    }
    None
}

/// The links whose names come before this one.
fn earlier<'a>(
    name: &LinkName,
    made: &'a MadeLinks,
) -> impl Iterator<Item = (&'a LinkName, &'a MadeLink)> {
    made.iter().take_while(move |(other, _)| **other != name).map(|(name, made)| (*name, *made))
}

/// Whether an earlier link is the same VLAN.
fn twin(name: &LinkName, made: &MadeLinks) -> Option<String> {
    let MadeLink::Vlan(vlan) = made.get(name)? else { return None };
    let is_same = |other: &MadeLink| matches!(other, MadeLink::Vlan(other) if other == vlan);
    let (other, _) = earlier(name, made).find(|(_, other)| is_same(other))?;
    Some(format!("`{other}` and `{name}` are both VLAN {} of `{}`", vlan.id(), vlan.parent()))
}

/// Whether an earlier link has one of its ports.
fn shared_port(name: &LinkName, made: &MadeLinks) -> Option<String> {
    let mut pairs = made.get(name)?.ports().filter_map(|port| {
        let mut others = earlier(name, made);
        let (other, _) = others.find(|(_, other)| other.ports().any(|one| one == port))?;
        Some(format!("`{port}` cannot be a port of both `{other}` and `{name}`"))
    });
    pairs.next()
}

/// Whether it is a bridge with a bridge as its port, which the kernel refuses.
fn bridge_in_bridge(name: &LinkName, made: &MadeLinks) -> Option<String> {
    let MadeLink::Bridge(bridge) = made.get(name)? else { return None };
    let is_bridge = |port: &&LinkName| matches!(made.get(port), Some(MadeLink::Bridge(_)));
    let port = bridge.ports.iter().find(is_bridge)?;
    Some(format!("the bridge `{port}` cannot be a port of the bridge `{name}`"))
}

/// Whether a link of WireGuard, which has packets of IP alone, would carry it.
fn on_wireguard(name: &LinkName, made: &MadeLinks) -> Option<String> {
    let is_wireguard = |lower: &&LinkName| matches!(made.get(lower), Some(MadeLink::WireGuard(_)));
    let lower = made.get(name)?.lower_links().find(is_wireguard)?;
    Some(format!("`{lower}` is a link of WireGuard, and cannot carry `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;

    fn reasons(lines: &[&str]) -> Vec<String> {
        let read = |line: &&str| match Setting::parse(line) {
            Ok(Setting::Network(setting)) => setting,
            other => panic!("{line}: {other:?}"),
        };
        let settings: Vec<NetworkSetting> = lines.iter().map(read).collect();
        link_conflicts(&settings).into_values().collect()
    }

    #[test]
    fn links_that_carry_each_other_are_found_at_any_distance() {
        assert_eq!(
            reasons(&["link a made vlan id=1 parent=b", "link b made vlan id=1 parent=a"]),
            ["`a` and `b` cannot carry each other", "`b` and `a` cannot carry each other"]
        );
        let three = ["a vlan id=1 parent=b", "b vlan id=1 parent=c", "c vlan id=1 parent=a"]
            .map(|line| format!("link {}", line.replacen(' ', " made ", 1)));
        let three = three.each_ref().map(String::as_str);
        assert_eq!(reasons(&three).len(), 3);
        // One that hangs on a cycle is not part of it.
        let hangs = [three.as_slice(), &["link d made vlan id=2 parent=a"]].concat();
        assert_eq!(reasons(&hangs).len(), 3);
        assert_eq!(reasons(&["link a made vlan id=1 parent=a"]), ["`a` cannot carry itself"]);
    }

    #[test]
    fn a_vlan_has_one_name() {
        assert_eq!(
            reasons(&[
                "link a made vlan id=5 parent=eth0",
                "link b made vlan id=5 parent=eth0",
                "link c made vlan id=5 parent=eth0 protocol=802.1ad",
                "link d made vlan id=5 parent=eth1",
                "link d mtu 1400",
            ]),
            ["`a` and `b` are both VLAN 5 of `eth0`"]
        );
    }

    #[test]
    fn a_link_is_a_port_of_one() {
        assert_eq!(
            reasons(&["link a made bridge ports=eth0,eth1", "link b made bridge ports=eth2,eth1"]),
            ["`eth1` cannot be a port of both `a` and `b`"]
        );
        assert_eq!(
            reasons(&["link a made bridge ports=b", "link b made vlan id=5 parent=a"]),
            ["`a` and `b` cannot carry each other", "`b` and `a` cannot carry each other"]
        );
        assert_eq!(
            reasons(&["link a made bridge ports=b", "link b made bridge"]),
            ["the bridge `b` cannot be a port of the bridge `a`"]
        );
        assert_eq!(
            reasons(&["link a made bridge ports=eth0", "link b made vlan id=5 parent=eth0"]),
            [""; 0]
        );
    }
}
