//! Bridges of settings, compared with what `ip` shows.

mod world;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use world::server::{Lease, Server};
use world::{World, run, until};

const BRIDGE: &str = "link br0 made bridge ports=eth0";
const ADDRESS: &str = "address br0 10.9.0.7 24";
const LEASE: Lease = Lease { address: [10, 9, 0, 50], renew: 1000, rebind: 2000, expire: 3000 };

fn has_address(world: &World, link: &str, address: &str) -> bool {
    let (link, address) = (format!(" {link} "), format!(" {address} "));
    world.ip("address show").lines().any(|line| line.contains(&link) && line.contains(&address))
}

fn is_port(world: &World, port: &str, master: &str) -> bool {
    world.details(port).contains(&format!("\"master\":\"{master}\""))
}

#[track_caller]
fn until_port(world: &World, port: &str) {
    until(&format!("{port} is a port"), || is_port(world, port, "br0").then_some(()));
}

#[track_caller]
fn until_reported(world: &World, report: &str) {
    until(report, || world.requests().iter().any(|line| line == report).then_some(()));
}

fn index(world: &World, link: &str) -> Option<String> {
    world.ip(&format!("link show dev {link}")).split(':').next().map(str::to_owned)
}

#[test]
fn a_bridge_takes_over_the_lease_of_its_port_and_gives_it_back() {
    let mut world = World::new();
    let _server = Server::start(&world, Some(LEASE));
    world.start_init();
    world.start_client();
    world.until_address("10.9.0.50/24");
    world.want(&[BRIDGE]);
    until_port(&world, "eth0");
    until("the bridge has the lease", || has_address(&world, "br0", "10.9.0.50/24").then_some(()));
    assert!(!has_address(&world, "eth0", "10.9.0.50/24"), "a port has no address");
    assert!(world.reaches("10.9.0.1"));
    until_reported(&world, "address 10.9.0.50/24 on br0");
    until_reported(&world, "address on eth0");
    until_reported(&world, &format!("network-set {BRIDGE}"));

    world.want(&[]);
    until("the bridge is gone", || world.details("br0").is_empty().then_some(()));
    world.until_address("10.9.0.50/24");
}

#[test]
fn a_bridge_connects_the_machines_behind_its_ports() {
    let mut world = World::new();
    let third = world.add_side("eth2", "eth3");
    run(&format!("ip -n {third} address add 10.9.0.9/24 dev eth3"));
    run(&format!("ip -n {third} link set eth3 up"));
    world.start_init();
    world.want(&["link br0 made bridge ports=eth0,eth2", ADDRESS]);
    world.start_client_with(&["--link", "eth0", "--link", "eth2"]);
    for port in ["eth0", "eth2"] {
        until_port(&world, port);
    }
    until("the node has a packet through", || world.reaches("10.9.0.1").then_some(()));
    until("so has the third machine", || world.reaches_from(&third, "10.9.0.1").then_some(()));

    world.want(&[BRIDGE, ADDRESS]);
    until("the port is released", || (!is_port(&world, "eth2", "br0")).then_some(()));
    assert!(!world.reaches_from(&third, "10.9.0.1"));
    assert!(world.reaches("10.9.0.1"));
}

#[test]
fn what_another_program_changes_of_ports_is_put_back_and_its_own_port_stays() {
    let mut world = World::new();
    world.start_init();
    world.want(&[BRIDGE, ADDRESS]);
    world.start_client();
    until("a packet arrives", || world.reaches("10.9.0.1").then_some(()));
    let side = world.client_side.clone();
    run(&format!("ip -n {side} link add pod0 type veth peer name pod1"));
    run(&format!("ip -n {side} link set pod0 master br0"));
    for command in
        ["link set eth0 nomaster", "link set eth0 down", "link set br0 down", "link delete br0"]
    {
        run(&format!("ip -n {side} {command}"));
        until(command, || {
            (is_port(&world, "eth0", "br0") && world.reaches("10.9.0.1")).then_some(())
        });
        if command != "link delete br0" {
            assert!(is_port(&world, "pod0", "br0"), "{command}");
        }
    }
}

#[test]
fn a_port_never_asks_for_an_address_and_has_none_of_a_setting() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LEASE));
    world.start_init();
    world.want(&[BRIDGE, "link br0 dhcp off", "address eth0 192.0.2.7 24", "link eth0 mtu 1400"]);
    world.start_client();
    until_port(&world, "eth0");
    until_reported(
        &world,
        "network-failed address eth0 192.0.2.7 `eth0` is a port of `br0`, which has the addresses",
    );
    until_reported(&world, "network-set link eth0 mtu 1400");
    until("the bridge has the MTU of its port", || {
        world.details("br0").contains("\"mtu\":1400").then_some(())
    });
    thread::sleep(Duration::from_secs(2));
    assert!(server.received().is_empty());
    assert!(!has_address(&world, "eth0", "192.0.2.7/24"));
}

#[test]
fn a_link_that_comes_later_becomes_a_port() {
    let mut world = World::without_cable();
    world.start_init();
    world.want(&[BRIDGE, ADDRESS]);
    world.start_client();
    until_reported(&world, "network-failed link br0 made there is no link `eth0`");
    world.plug();
    until_port(&world, "eth0");
    until("a packet arrives", || world.reaches("10.9.0.1").then_some(()));
    until_reported(&world, &format!("network-set {BRIDGE}"));
    run(&format!("ip -n {} link delete eth0", world.client_side));
    until("init knows that it is gone", || {
        let last = world.last_request("network-failed link br0 made")?;
        let count = world.requests().iter().filter(|line| **line == last).count();
        (count == 2).then_some(())
    });
    world.plug();
    until_port(&world, "eth0");
    until("a packet arrives again", || world.reaches("10.9.0.1").then_some(()));
}

#[test]
fn a_program_that_starts_again_keeps_its_bridge() {
    let mut world = World::new();
    let _server = Server::start(&world, Some(LEASE));
    world.start_init();
    world.want(&[BRIDGE]);
    let client = world.start_client();
    until("the lease", || has_address(&world, "br0", "10.9.0.50/24").then_some(()));
    let before = index(&world, "br0");
    world.end(client, "-KILL");
    world.start_client();
    let leased =
        || world.requests().iter().filter(|line| *line == "address 10.9.0.50/24 on br0").count();
    until("the lease again", || (leased() == 2).then_some(()));
    assert_eq!(index(&world, "br0"), before, "the link is the same");
    assert!(is_port(&world, "eth0", "br0"));
}

#[test]
fn a_port_of_another_program_is_not_taken_from_it() {
    let mut world = World::new();
    let side = world.client_side.clone();
    run(&format!("ip -n {side} link add foreign type bridge"));
    run(&format!("ip -n {side} link set eth0 master foreign"));
    world.start_init();
    world.want(&[BRIDGE, "link br1 made bridge ports=eth7"]);
    world.start_client();
    until_reported(
        &world,
        "network-failed link br0 made `eth0` is a port of `foreign` of another program",
    );
    until_reported(&world, "network-failed link br1 made there is no link `eth7`");
    assert!(is_port(&world, "eth0", "foreign"));
}

/// A process that notes from now on what the kernel reports of links.
fn monitor(world: &World) -> Child {
    let words = ["-n", &world.client_side, "-oneline", "monitor", "link"];
    let monitor = Command::new("ip").args(words).stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    monitor
}

/// How many of its reports about `eth0` have this text.
fn count(mut monitor: Child, text: &str) -> usize {
    monitor.kill().unwrap();
    let output = String::from_utf8(monitor.wait_with_output().unwrap().stdout).unwrap();
    output.lines().filter(|line| line.contains(" eth0@") && line.contains(text)).count()
}

#[test]
fn a_port_that_is_refused_is_not_switched_off_again_and_again() {
    let mut world = World::new();
    let side = world.client_side.clone();
    run(&format!("ip -n {side} link set eth0 up"));
    run(&format!("ip -n {side} link add link eth0 name other type macvlan"));
    world.start_init();
    world.want(&[BRIDGE, ADDRESS]);
    let monitor = monitor(&world);
    world.start_client();
    until_reported(&world, "network-failed link br0 made Device or resource busy (os error 16)");
    thread::sleep(Duration::from_secs(4));
    assert_eq!(count(monitor, "state DOWN"), 0, "the port stays on");
    run(&format!("ip -n {side} link delete other"));
    until_port(&world, "eth0");
    until("a packet arrives", || world.reaches("10.9.0.1").then_some(()));
    until_reported(&world, &format!("network-set {BRIDGE}"));
}

#[test]
fn a_port_that_a_setting_switches_off_stays_off() {
    let mut world = World::new();
    world.start_init();
    let off = "link eth0 state down";
    world.want(&[BRIDGE, off]);
    let monitor = monitor(&world);
    world.start_client();
    until_port(&world, "eth0");
    until_reported(&world, &format!("network-set {off}"));
    thread::sleep(Duration::from_secs(1));
    assert_eq!(count(monitor, ",UP"), 0, "it is never on");
    world.want(&[BRIDGE, ADDRESS]);
    until("a packet arrives", || world.reaches("10.9.0.1").then_some(()));
}
