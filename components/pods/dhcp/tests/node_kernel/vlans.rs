//! VLANs of settings, compared with what `ip` shows.

use std::thread;
use std::time::Duration;

use crate::world::{World, run, until};

const VLAN: &str = "link eth0.5 made vlan id=5 parent=eth0";
const ADDRESS: &str = "address eth0.5 192.0.2.7 24";
const ROUTE: &str = "route 198.51.100.0/24 512 via 192.0.2.1 on eth0.5";

/// A world with the same VLAN on the server's side.
fn world() -> World {
    let world = World::new();
    add_server_vlan(&world);
    world.start_init();
    world
}

fn add_server_vlan(world: &World) {
    let side = &world.server_side;
    run(&format!("ip -n {side} link add link eth1 name eth1.5 type vlan id 5"));
    run(&format!("ip -n {side} address add 192.0.2.1/24 dev eth1.5"));
    run(&format!("ip -n {side} link set eth1.5 up"));
}

fn has_vlan(world: &World, parts: &[&str]) -> bool {
    let shown = world.details("eth0.5");
    parts.iter().all(|part| shown.contains(part))
}

#[track_caller]
fn until_vlan(world: &World, parts: &[&str]) {
    until("the VLAN is as it shall be", || has_vlan(world, parts).then_some(()));
}

#[track_caller]
fn until_reported(world: &World, report: &str) {
    until(report, || world.requests().iter().any(|line| line == report).then_some(()));
}

#[test]
fn a_vlan_carries_packets_and_goes_with_its_setting() {
    let mut world = world();
    let side = world.client_side.clone();
    run(&format!("ip -n {side} link add link eth0 name eth0.9 type vlan id 9"));
    world.want(&[VLAN, ADDRESS, ROUTE]);
    world.start_client();
    until_vlan(&world, &["\"link\":\"eth0\"", "\"protocol\":\"802.1Q\",\"id\":5", "\"UP\""]);
    until("the server has a packet", || world.reaches("192.0.2.1").then_some(()));
    until("the route", || {
        world.ip("route show").contains("198.51.100.0/24 via 192.0.2.1 dev eth0.5").then_some(())
    });
    for setting in [VLAN, ADDRESS, ROUTE] {
        until_reported(&world, &format!("network-set {setting}"));
    }
    until_reported(&world, "address 192.0.2.7/24 on eth0.5");
    until_reported(&world, "router-advertisements on eth0.5");

    world.want(&[]);
    until("the VLAN is gone", || world.details("eth0.5").is_empty().then_some(()));
    assert!(!world.details("eth0.9").is_empty(), "it is another program's");
    until("init knows that", || {
        (world.last_request("address ")? == "address on eth0.5").then_some(())
    });
}

#[test]
fn a_vlan_gets_an_address_with_dhcp() {
    let mut world = world();
    let leases = format!("--dhcp-leasefile={}", world.path("leases"));
    let words = "--keep-in-foreground --conf-file=/dev/null --port=0 --log-facility=- --no-ping \
                 --user=root --pid-file= --dhcp-authoritative --interface=eth1.5 \
                 --dhcp-range=192.0.2.50,192.0.2.50,255.255.255.0,2m";
    let mut words: Vec<&str> = words.split_ascii_whitespace().collect();
    words.push(&leases);
    world.start_server("dnsmasq", &words);
    world.want(&[VLAN]);
    world.start_client();
    until_reported(&world, "address 192.0.2.50/24 on eth0.5");
    world.want(&[VLAN, "link eth0.5 dhcp off"]);
    until("the lease is gone", || {
        (!world.ip("address show dev eth0.5").contains("192.0.2.50")).then_some(())
    });
}

#[test]
fn a_vlan_is_back_when_its_parent_is() {
    let mut world = world();
    world.want(&[VLAN, ADDRESS]);
    world.start_client();
    until("the server has a packet", || world.reaches("192.0.2.1").then_some(()));
    // The kernel removes the VLANs of a link with it.
    run(&format!("ip -n {} link delete eth0", world.client_side));
    until_reported(&world, "network-failed link eth0.5 made there is no link `eth0`");
    world.plug();
    add_server_vlan(&world);
    until("the server has a packet again", || world.reaches("192.0.2.1").then_some(()));
    let enabled = "router-advertisements on eth0.5";
    let count = || world.requests().iter().filter(|line| *line == enabled).count();
    until("init accepts router advertisements on the new link, too", || {
        (count() == 2).then_some(())
    });
}

#[test]
fn what_another_program_changes_of_a_vlan_is_put_back() {
    let mut world = world();
    world.want(&[VLAN, ADDRESS]);
    world.start_client();
    until("the server has a packet", || world.reaches("192.0.2.1").then_some(()));
    for command in ["link set eth0.5 down", "link delete eth0.5", "link set eth0.5 mtu 1300"] {
        run(&format!("ip -n {} {command}", world.client_side));
        until_vlan(&world, &["\"UP\"", "\"mtu\":1500"]);
        until(command, || world.reaches("192.0.2.1").then_some(()));
    }
}

#[test]
fn a_vlan_with_another_identifier_is_made_anew() {
    let mut world = world();
    world.want(&["link eth0.5 made vlan id=6 parent=eth0 protocol=802.1ad", ADDRESS]);
    world.start_client();
    until_vlan(&world, &["\"protocol\":\"802.1ad\",\"id\":6", "\"UP\""]);
    world.want(&[VLAN, ADDRESS]);
    until_vlan(&world, &["\"protocol\":\"802.1Q\",\"id\":5", "\"UP\""]);
    until("the server has a packet", || world.reaches("192.0.2.1").then_some(()));
}

#[test]
fn a_program_that_starts_again_keeps_its_vlans_and_removes_old_ones() {
    let mut world = world();
    let other = "link eth0.6 made vlan id=6 parent=eth0";
    world.want(&[VLAN, ADDRESS, other]);
    let client = world.start_client();
    until_reported(&world, &format!("network-set {ADDRESS}"));
    until_reported(&world, &format!("network-set {other}"));
    let index =
        |world: &World| world.ip("link show dev eth0.5").split(':').next().map(str::to_owned);
    let before = index(&world);
    world.end(client, "-KILL");
    world.want(&[VLAN, ADDRESS]);
    world.start_client();
    until("the other VLAN is gone", || world.details("eth0.6").is_empty().then_some(()));
    assert_eq!(index(&world), before, "the link is the same");
    assert!(world.reaches("192.0.2.1"));
}

#[test]
fn a_link_of_another_program_is_neither_changed_nor_removed() {
    let mut world = world();
    run(&format!("ip -n {} link add link eth0 name eth0.5 type vlan id 7", world.client_side));
    world.want(&[VLAN, ADDRESS]);
    world.start_client();
    until_reported(&world, "network-failed link eth0.5 made the node has another link `eth0.5`");
    world.want(&[]);
    thread::sleep(Duration::from_secs(1));
    assert!(has_vlan(&world, &["\"id\":7"]));
    assert!(!world.ip("address show dev eth0.5").contains("192.0.2.7"));
}

#[test]
fn the_mtu_of_a_vlan_follows_its_parent_unless_it_has_one_of_its_own() {
    let mut world = world();
    world.want(&[VLAN, "link eth0 mtu 1400"]);
    world.start_client();
    until_vlan(&world, &["\"mtu\":1400"]);
    world.want(&[VLAN]);
    until_vlan(&world, &["\"mtu\":1500"]);
    world.want(&[VLAN, "link eth0.5 mtu 1300"]);
    until_vlan(&world, &["\"mtu\":1300"]);
    until_reported(&world, "network-set link eth0.5 mtu 1300");
    world.want(&[VLAN, "link eth0.5 mtu 1501"]);
    until_reported(
        &world,
        "network-failed link eth0.5 mtu its parent `eth0` has an MTU of 1500 bytes",
    );
    world.want(&[VLAN]);
    until_vlan(&world, &["\"mtu\":1500"]);
}
