use super::*;
use crate::link_kind::BondNumbers;
use osbuild_protocol::Setting;

fn settings(lines: &[&str]) -> Vec<NetworkSetting> {
    let read = |line: &&str| match Setting::parse(line) {
        Ok(Setting::Network(setting)) => setting,
        other => panic!("{line}: {other:?}"),
    };
    lines.iter().map(read).collect()
}

/// The plan of a host that has no other links than these.
fn plan(wanted: &[NetworkSetting], links: &[HostLink]) -> LinkPlan {
    super::plan(wanted, &host_links(links))
}

fn host_links(links: &[HostLink]) -> HostLinks {
    let names = links.iter().map(|host| host.link.name.clone()).collect();
    HostLinks { links: links.to_vec(), names }
}

fn host(index: u32, name: &str, kind: LinkKind) -> HostLink {
    let is_of_node = kind == LinkKind::Device;
    let link = Link {
        index,
        name: name.to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        up: true,
        carrier: true,
        dhcpv6: crate::dhcpv6::Need::Nothing,
        kind,
        master: None,
        parent: None,
        is_made: false,
    };
    HostLink { link, is_of_node, is_served: is_of_node, leased_mtu: None, former_mtu: None }
}

fn eth0() -> HostLink {
    host(2, "eth0", LinkKind::Device)
}

/// `eth0.5`, which the node has made.
fn made() -> HostLink {
    let mut made = host(7, "eth0.5", LinkKind::Vlan(5, 0x8100));
    made.link.parent = Some(2);
    made.link.is_made = true;
    made
}

fn name(name: &str) -> LinkName {
    LinkName::parse(name).unwrap()
}

const VLAN: &str = "link eth0.5 made vlan id=5 parent=eth0";

#[test]
fn a_vlan_is_made_once_its_parent_is_there() {
    let wanted = settings(&[VLAN]);
    let absent = plan(&wanted, &[]);
    let reason = "there is no link `eth0`".to_owned();
    assert_eq!(absent.problems, [(NetworkName::Made(name("eth0.5")), reason)].into());
    assert_eq!(absent.actions, []);
    let NetworkSetting::Made(_, vlan) = &wanted[0] else { panic!("it is a VLAN") };
    let create = LinkAction::Create(name("eth0.5"), vlan.clone(), Some(2));
    assert_eq!(plan(&wanted, &[eth0()]).actions, [create]);
    assert_eq!(plan(&wanted, &[eth0(), made()]), LinkPlan::default());
}

#[test]
fn a_vlan_of_another_identifier_or_parent_is_removed_first() {
    let wanted = settings(&["link eth0.5 made vlan id=6 parent=eth0"]);
    assert_eq!(plan(&wanted, &[eth0(), made()]).actions, [LinkAction::Remove(7)]);
    let wanted = settings(&["link eth0.5 made vlan id=5 parent=eth1"]);
    let links = [eth0(), host(3, "eth1", LinkKind::Device), made()];
    assert_eq!(plan(&wanted, &links).actions, [LinkAction::Remove(7)]);
}

#[test]
fn only_a_link_that_the_node_has_made_is_removed() {
    let foreign = host(8, "eth0.9", LinkKind::Vlan(9, 0x8100));
    let removed = plan(&[], &[eth0(), made(), foreign.clone()]);
    assert_eq!(removed.actions, [LinkAction::Remove(7)]);
    let wanted = settings(&["link eth0.9 made vlan id=8 parent=eth0"]);
    let refused = plan(&wanted, &[eth0(), foreign]);
    assert_eq!(refused.actions, []);
    let reasons: Vec<_> = refused.problems.into_values().collect();
    assert_eq!(reasons, ["the node has another link `eth0.9`"]);
}

#[test]
fn a_link_of_another_kind_is_neither_made_nor_a_parent() {
    let mut links = host_links(&[eth0()]);
    links.names.insert("tun0".to_owned());
    for (setting, reason) in [
        ("link tun0 made vlan id=5 parent=eth0", "the node has another link `tun0`"),
        ("link storage made vlan id=5 parent=tun0", "`tun0` is not a link of Ethernet"),
    ] {
        let refused = super::plan(&settings(&[setting]), &links);
        assert_eq!(refused.actions, []);
        assert_eq!(refused.problems.into_values().collect::<Vec<_>>(), [reason]);
    }
}

#[test]
fn a_link_of_another_program_carries_no_vlan() {
    let wanted = settings(&["link storage made vlan id=5 parent=cni0"]);
    let refused = plan(&wanted, &[host(3, "cni0", LinkKind::Other)]);
    let reasons: Vec<_> = refused.problems.into_values().collect();
    assert_eq!(reasons, ["`cni0` is a link of another program"]);
}

#[test]
fn links_that_exclude_each_other_are_not_made() {
    let wanted = settings(&[VLAN, "link other made vlan id=5 parent=eth0"]);
    let refused = plan(&wanted, &[eth0(), made()]);
    assert_eq!(refused.actions, []);
    let reasons: Vec<_> = refused.problems.into_values().collect();
    assert_eq!(reasons, ["`eth0.5` and `other` are both VLAN 5 of `eth0`"]);
}

#[test]
fn a_vlan_has_the_mtu_of_its_parent_or_a_smaller_one() {
    let set =
        |mtu, is_setting| LinkAction::SetMtu { index: 7, link: name("eth0.5"), mtu, is_setting };
    let (mut parent, wanted) = (eth0(), settings(&[VLAN]));
    parent.link.mtu = 9000;
    let links = [parent, made()];
    assert_eq!(plan(&wanted, &links).actions, [set(9000, false)]);
    let smaller = settings(&[VLAN, "link eth0.5 mtu 1400"]);
    assert_eq!(plan(&smaller, &links).actions, [set(1400, true)]);
    let mut leased = links.clone();
    leased[1].leased_mtu = Some(1500);
    assert_eq!(plan(&wanted, &leased).actions, []);
    let larger = plan(&settings(&[VLAN, "link eth0.5 mtu 9000"]), &[eth0(), made()]);
    assert_eq!(larger.actions, []);
    let reasons: Vec<_> = larger.problems.into_values().collect();
    assert_eq!(reasons, ["its parent `eth0` has an MTU of 1500 bytes"]);
}

#[test]
fn a_vlan_is_switched_on_with_its_parent() {
    let (mut parent, mut made) = (eth0(), made());
    made.link.up = false;
    let wanted = settings(&[VLAN]);
    let on = LinkAction::SwitchOn(7, name("eth0.5"));
    assert_eq!(plan(&wanted, &[parent.clone(), made.clone()]).actions, [on]);
    parent.link.up = false;
    assert_eq!(plan(&wanted, &[parent, made]).actions, []);
}

/// A link that the node has made.
fn own(index: u32, name: &str, kind: LinkKind) -> HostLink {
    let mut own = host(index, name, kind);
    own.link.is_made = true;
    own
}

fn bridge() -> HostLink {
    own(9, "br0", LinkKind::Bridge { stp: false, vlan_filtering: false })
}

fn bond(primary: Option<u32>) -> HostLink {
    let numbers = BondNumbers { mode: 1, miimon: 100, hash_policy: 0, lacp_rate: 0 };
    own(9, "bond0", LinkKind::Bond(numbers, primary))
}

fn port_of(mut host: HostLink, master: u32) -> HostLink {
    host.link.master = Some(master);
    host
}

const BRIDGE: &str = "link br0 made bridge ports=eth0";
const BOND: &str = "link bond0 made bond mode=active-backup ports=eth0";

#[test]
fn a_bridge_has_the_ports_of_its_setting_and_those_of_other_programs() {
    let wanted = settings(&[BRIDGE]);
    let attach = |index, master, link: &str| {
        let port = NewPort { index, is_on: true, stays_off: false, is_of_bond: false };
        LinkAction::Attach { port, master, link: name(link) }
    };
    assert_eq!(plan(&wanted, &[eth0(), bridge()]).actions, [attach(2, 9, "br0")]);
    let eth1 = port_of(host(3, "eth1", LinkKind::Device), 9);
    let foreign = port_of(host(4, "veth0", LinkKind::Other), 9);
    let links = [port_of(eth0(), 9), eth1.clone(), foreign, bridge()];
    assert_eq!(plan(&wanted, &links).actions, [LinkAction::Release(3)]);
    // From one link of the node to another, without a moment in between.
    let wanted = settings(&["link br0 made bridge", "link br1 made bridge ports=eth1"]);
    let mut other = bridge();
    (other.link.index, other.link.name) = (10, "br1".to_owned());
    assert_eq!(plan(&wanted, &[eth1, bridge(), other]).actions, [attach(3, 10, "br1")]);
}

#[test]
fn a_port_that_a_setting_switches_off_is_attached_and_stays_off() {
    let mut port = eth0();
    port.link.up = false;
    for (made, master) in [(BRIDGE, bridge()), (BOND, bond(None))] {
        let plan = plan(&settings(&[made, "link eth0 state down"]), &[port.clone(), master]);
        let [LinkAction::Attach { port, .. }] = plan.actions[..] else { panic!("{plan:?}") };
        let is_of_bond = made == BOND;
        assert_eq!(port, NewPort { index: 2, is_on: false, stays_off: true, is_of_bond });
    }
}

#[test]
fn a_bridge_with_other_options_stays_and_a_bond_is_made_again() {
    let wanted = settings(&["link br0 made bridge stp=on"]);
    let NetworkSetting::Made(_, made) = &wanted[0] else { panic!("it is a bridge") };
    let set = LinkAction::SetOptions(9, name("br0"), made.clone());
    assert_eq!(plan(&wanted, &[bridge()]).actions, [set]);
    let wanted = settings(&["link bond0 made bond mode=802.3ad"]);
    assert_eq!(plan(&wanted, &[bond(None)]).actions, [LinkAction::Remove(9)]);
    let wanted = settings(&["link bond0 made bond mode=active-backup"]);
    assert_eq!(plan(&wanted, &[bond(None)]).actions, []);
}

#[test]
fn a_bond_prefers_its_primary_port_once_it_is_one() {
    let wanted = settings(&["link bond0 made bond mode=active-backup ports=eth0 primary=eth0"]);
    let actions = |port: HostLink, primary| plan(&wanted, &[port, bond(primary)]).actions;
    assert!(matches!(actions(eth0(), None)[..], [LinkAction::Attach { .. }]));
    let set = |port| LinkAction::SetPrimary(9, name("bond0"), port);
    assert_eq!(actions(port_of(eth0(), 9), None), [set(2)]);
    assert_eq!(actions(port_of(eth0(), 9), Some(2)), []);
    let none = settings(&["link bond0 made bond mode=active-backup ports=eth0"]);
    let links = [port_of(eth0(), 9), bond(Some(2))];
    assert_eq!(plan(&none, &links).actions, [set(0)]);
}

#[test]
fn the_ports_of_a_link_that_does_not_exist_are_served() {
    let wanted = settings(&[
        BRIDGE,
        "link br1 made bridge ports=eth0",
        "link bond0 made bond mode=active-backup ports=eth1",
    ]);
    let ports_with = |links: &[HostLink]| {
        let ports = ports(&wanted, links.iter().map(|host| &host.link));
        let ports = ports.into_iter();
        ports.map(|(port, Port { of, .. })| format!("{port} of {of}")).collect::<Vec<_>>()
    };
    assert_eq!(ports_with(&[eth0()]), [""; 0]);
    assert_eq!(ports_with(&[eth0(), bridge()]), ["eth0 of br0"]);
    let foreign = host(9, "br0", LinkKind::Bridge { stp: false, vlan_filtering: false });
    assert_eq!(ports_with(&[eth0(), foreign]), [""; 0]);
    assert_eq!(ports_with(&[bond(None)]), ["eth1 of bond0"]);
}
