//! The client on a link whose router leaves addresses or options to DHCPv6: dnsmasq (Debian package
//! `dnsmasq-base`) as router and server. The node forwards packets as well.

mod world;

use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use world::server::in_side;
use world::{LINK, SERVER_LINK, World, run, until};

const ROUTER: &str = "2001:db8:9::1";
/// A range of one address, the flag M, and no prefix from which a host could make its own.
const LEASES: &str = "--dhcp-range=2001:db8:9::100,2001:db8:9::100,64,10m";
const LEASED: &str = "2001:db8:9::100/128";
/// Addresses from the router's prefix, and the flag O.
const OPTIONS_ALONE: &str = "--dhcp-range=2001:db8:9::,ra-stateless,64,10m";
const REST: &str = "firewall-rule rest drop";

fn start_server(world: &mut World, more: &[&str]) -> u32 {
    let server = &world.server_side;
    run(&format!("ip -n {server} address replace {ROUTER}/64 dev {SERVER_LINK} nodad"));
    let interface = format!("--interface={SERVER_LINK}");
    let pid_file = format!("--pid-file={}", world.path("server.pid"));
    let mut arguments = vec![
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
        "--leasefile-ro",
        "--enable-ra",
        "--log-dhcp",
        "--log-facility=-",
        "--user=root",
        "--dhcp-option=option6:ntp-server,[2001:db8:9::123]",
        "--dhcp-option=option6:dns-server,[2001:db8:9::53]",
        "--dhcp-option=option6:domain-search,eng.example",
        &interface,
        &pid_file,
    ];
    arguments.extend(more);
    world.start_server("/usr/sbin/dnsmasq", &arguments)
}

/// A world with a router and a server, and no client yet.
fn world(more: &[&str]) -> World {
    let mut world = World::new();
    world.make_router();
    world.start_init();
    start_server(&mut world, more);
    world
}

fn until_requested(world: &World, request: &str) {
    until(request, || world.requests().iter().any(|line| line == request).then_some(()));
}

fn until_logged(world: &World, text: &str) {
    until(text, || world.log().contains(text).then_some(()));
}

/// The global IPv6 addresses of the client's link, as `ip` shows them.
fn shown(world: &World) -> String {
    world.ip(&format!("-6 address show dev {LINK} scope global"))
}

#[test]
fn a_router_that_leaves_addresses_to_dhcpv6_gets_the_node_one() {
    let mut world = world(&[LEASES]);
    // The answers of a server reach the client of a node whose firewall is closed.
    world.want(&[REST]);
    world.start_client();
    until_requested(&world, &format!("address {LEASED} on {LINK}"));
    until_requested(&world, "resolv 2001:db8:9::53 search eng.example");
    until_requested(&world, "ntp 2001:db8:9::123");
    let shown = shown(&world);
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(shown.contains("dynamic noprefixroute"), "{shown}");
    let left = |name: &str| -> u32 {
        let (_, rest) = shown.split_once(name).unwrap();
        rest.split_once("sec").unwrap().0.trim().parse().unwrap()
    };
    assert!((500..=601).contains(&left("valid_lft")), "{shown}");
    assert!((500..=601).contains(&left("preferred_lft")), "{shown}");
    let listener = in_side(&world.server_side, || TcpListener::bind((ROUTER, 7000))).unwrap();
    let to = listener.local_addr().unwrap();
    until("the node connects", || {
        in_side(&world.client_side, || TcpStream::connect_timeout(&to, Duration::from_secs(1))).ok()
    });
    assert_eq!(listener.accept().unwrap().1.ip(), "2001:db8:9::100".parse::<IpAddr>().unwrap());
}

#[test]
fn a_router_that_leaves_options_to_dhcpv6_gets_the_node_its_own_address() {
    let mut world = world(&[OPTIONS_ALONE]);
    world.start_client();
    until_requested(&world, "ntp 2001:db8:9::123");
    let address = world.address_in("2001:db8:9::".parse().unwrap());
    until_requested(&world, &format!("address {address}/64 on {LINK}"));
    assert!(!world.log().contains("seeks a server of DHCPv6"), "{}", world.log());
}

#[test]
fn a_restarted_client_keeps_its_leased_ipv6_address() {
    let mut world = world(&[LEASES]);
    let client = world.start_client();
    until_requested(&world, &format!("address {LEASED} on {LINK}"));
    world.end(client, "-KILL");
    assert!(shown(&world).contains(LEASED));
    world.start_client();
    let count = || world.log().matches(&format!("has {LEASED} of DHCPv6")).count();
    until("the lease, again", || (count() == 2).then_some(()));
    assert_eq!(shown(&world).lines().count(), 1, "{}", shown(&world));
}

#[test]
fn a_leased_ipv6_address_is_put_back() {
    let mut world = world(&[LEASES]);
    world.start_client();
    until_requested(&world, &format!("address {LEASED} on {LINK}"));
    run(&format!("ip -n {} address delete {LEASED} dev {LINK}", world.client_side));
    until("the address is back", || shown(&world).contains(LEASED).then_some(()));
}

#[test]
fn a_link_that_had_a_tiny_mtu_has_its_leased_ipv6_address_again() {
    let mut world = world(&[LEASES]);
    world.start_client();
    until_requested(&world, &format!("address {LEASED} on {LINK}"));
    world.want(&["link eth0 mtu 1000"]);
    until("a link without IPv6", || shown(&world).is_empty().then_some(()));
    world.want(&[]);
    until("the address, again", || shown(&world).contains(LEASED).then_some(()));
}

#[test]
fn a_static_address_that_is_leased_as_well_stays_static() {
    let mut world = world(&[LEASES]);
    let address = "address eth0 2001:db8:9::100 64";
    world.want(&[address]);
    world.start_client();
    until_requested(&world, &format!("network-set {address}"));
    until_logged(&world, &format!("has {LEASED} of DHCPv6"));
    thread::sleep(Duration::from_secs(1));
    let before = shown(&world);
    assert!(before.contains("2001:db8:9::100/64") && before.contains("forever"), "{before}");
    assert_eq!(before.lines().count(), 1, "{before}");
    world.want(&[]);
    until("the lease is alone", || shown(&world).contains(LEASED).then_some(()));
    assert!(!shown(&world).contains("/64"), "{}", shown(&world));
}

/// A world with leases of this time, of two addresses that another host has.
fn world_with_taken_addresses(time: &str) -> World {
    let range = format!("--dhcp-range=2001:db8:9::100,2001:db8:9::101,64,{time}");
    let mut world = world(&[&range]);
    let other = world.add_neighbor();
    for taken in ["2001:db8:9::100", "2001:db8:9::101"] {
        run(&format!("ip -n {other} address add {taken}/64 dev host0 nodad"));
    }
    world
}

#[test]
fn an_ipv6_address_that_another_host_has_is_declined() {
    let mut world = world_with_taken_addresses("10m");
    world.start_client();
    until_logged(&world, "loses its address of DHCPv6: another host on the link has it");
    until_logged(&world, "DHCPDECLINE");
}

#[test]
fn an_endless_lease_of_an_address_that_another_host_has_is_declined() {
    let mut world = world_with_taken_addresses("infinite");
    world.start_client();
    until_logged(&world, "loses its address of DHCPv6: another host on the link has it");
    until_logged(&world, "DHCPDECLINE");
    until("the address goes", || (!shown(&world).contains("dadfailed")).then_some(()));
}

#[test]
fn a_cable_that_was_pulled_keeps_the_ipv6_address_of_its_network() {
    let mut world = world(&[LEASES]);
    world.start_client();
    until_requested(&world, &format!("address {LEASED} on {LINK}"));
    let plug =
        |way: &str| run(&format!("ip -n {} link set {SERVER_LINK} {way}", world.server_side));
    plug("down");
    until_logged(&world, "has lost its carrier");
    plug("up");
    run(&format!(
        "ip -n {} address replace {ROUTER}/64 dev {SERVER_LINK} nodad",
        world.server_side
    ));
    until_logged(&world, "asks whether its address of DHCPv6 belongs to this network");
    let confirmed = format!("has {LEASED} of DHCPv6");
    until("the server confirms", || (world.log().matches(&confirmed).count() == 2).then_some(()));
    assert!(!world.log().contains("loses its address"), "{}", world.log());
}

#[test]
fn a_link_without_dhcp_has_no_address_of_dhcpv6() {
    let mut world = world(&[LEASES]);
    let client = world.start_client();
    until_requested(&world, &format!("address {LEASED} on {LINK}"));
    // The setting comes while no client runs.
    world.end(client, "-KILL");
    assert!(shown(&world).contains(LEASED));
    world.want(&["link eth0 dhcp off"]);
    world.start_client();
    until("the address goes", || shown(&world).is_empty().then_some(()));
    world.want(&[]);
    until("the address is back", || shown(&world).contains(LEASED).then_some(()));
}
