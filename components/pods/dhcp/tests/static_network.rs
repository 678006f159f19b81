//! Addresses, routes and MTU of settings, on a link without a DHCP server.

mod world;

use std::thread;
use std::time::{Duration, Instant};

use world::server::{Lease, Server, in_side};
use world::{LINK, World, run, until};

const ADDRESS: &str = "address eth0 192.0.2.7 24";
const ADDRESS6: &str = "address eth0 2001:db8::7 64";
const ROUTE: &str = "route 0.0.0.0/0 512 via 192.0.2.1 on eth0";
const ROUTE6: &str = "route 2001:db8:1::/48 512 via 2001:db8::1 on eth0";
const MTU: &str = "link eth0 mtu 1400";
const LEASE: Lease = Lease { address: [10, 9, 0, 50], renew: 1000, rebind: 2000, expire: 3000 };

/// How soon a foreign change is put back.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(1);

fn has_address(world: &World, address: &str) -> bool {
    world.ip(&format!("address show dev {LINK}")).contains(&format!(" {address} "))
}

fn has_route(world: &World, family: &str, route: &str) -> bool {
    world.ip(&format!("{family} route show")).contains(route)
}

fn has_mtu(world: &World, mtu: u32) -> bool {
    world.ip(&format!("link show dev {LINK}")).contains(&format!(" mtu {mtu} "))
}

fn is_set(world: &World) -> bool {
    has_address(world, "192.0.2.7/24")
        && has_address(world, "2001:db8::7/64")
        && has_route(world, "-4", &format!("default via 192.0.2.1 dev {LINK} proto 111 metric 512"))
        && has_route(world, "-6", "2001:db8:1::/48 via 2001:db8::1")
        && has_mtu(world, 1400)
}

#[track_caller]
fn until_set(world: &World) -> Duration {
    let start = Instant::now();
    until("the settings are in effect", || is_set(world).then_some(()));
    start.elapsed()
}

/// A world whose client has set everything.
fn world() -> (World, u32) {
    let mut world = World::new();
    world.start_init();
    world.want(&[ADDRESS, ADDRESS6, ROUTE, ROUTE6, MTU]);
    let client = world.start_client();
    until_set(&world);
    (world, client)
}

#[test]
fn settings_are_in_effect_without_a_server_and_reported() {
    let (world, _) = world();
    for report in [
        "network-set address eth0 192.0.2.7 24",
        "network-set route 0.0.0.0/0 512 via 192.0.2.1 on eth0",
        "network-set link eth0 mtu 1400",
        "former-mtu 1500 on eth0",
    ] {
        until(report, || world.requests().iter().any(|line| line == report).then_some(()));
    }
    until("the addresses are reported", || {
        (world.last_request("address ")? == "address 192.0.2.7/24 2001:db8::7/64 on eth0")
            .then_some(())
    });
}

#[test]
fn what_another_program_removes_is_put_back_within_a_second() {
    let (world, _) = world();
    let side = &world.client_side;
    for command in [
        "address delete 192.0.2.7/24 dev eth0",
        "address delete 2001:db8::7/64 dev eth0",
        "route delete default metric 512",
        "route replace default via 192.0.2.66 metric 512",
        "-6 route delete 2001:db8:1::/48 metric 512",
        "link set eth0 mtu 1300",
    ] {
        run(&format!("ip -n {side} {command}"));
        let took = until_set(&world);
        assert!(took < REPAIR_TIMEOUT, "{command}: {took:?}");
    }
    // The kernel removes routes with the link, and IPv6 addresses.
    run(&format!("ip -n {side} link set eth0 down"));
    run(&format!("ip -n {side} link set eth0 up"));
    until_set(&world);
}

#[test]
fn what_is_withdrawn_is_gone_and_the_rest_stays() {
    let (world, _) = world();
    run(&format!("ip -n {} address add 198.51.100.9/24 dev eth0", world.client_side));
    run(&format!("ip -n {} route add 203.0.113.0/24 via 192.0.2.1", world.client_side));
    world.want(&[ADDRESS]);
    until("the others are gone", || {
        (has_mtu(&world, 1500)
            && !has_address(&world, "2001:db8::7/64")
            && !has_route(&world, "-4", "default")
            && !has_route(&world, "-6", "2001:db8:1::/48"))
        .then_some(())
    });
    assert!(has_route(&world, "-4", "203.0.113.0/24 via 192.0.2.1"));
    until("the former MTU is forgotten", || {
        world.requests().iter().any(|line| line == "former-mtu none on eth0").then_some(())
    });
    world.want(&[]);
    until("the address is gone", || (!has_address(&world, "192.0.2.7/24")).then_some(()));
    assert!(has_address(&world, "198.51.100.9/24"), "it is another program's");
    until("init knows that", || {
        (world.last_request("address ")? == "address on eth0").then_some(())
    });
}

#[test]
fn a_program_that_starts_again_knows_what_it_has_set() {
    let (mut world, client) = world();
    world.end(client, "-KILL");
    assert!(is_set(&world), "it stays without the program");
    world.want(&[ADDRESS, ROUTE]);
    world.start_client();
    until("what was withdrawn meanwhile is gone", || {
        (has_mtu(&world, 1500) && !has_address(&world, "2001:db8::7/64")).then_some(())
    });
    assert!(has_address(&world, "192.0.2.7/24"));
    assert!(has_route(&world, "-4", "default via 192.0.2.1"));
}

#[test]
fn a_setting_that_the_kernel_refuses_is_reported_and_set_once_it_can_be() {
    let mut world = World::new();
    world.start_init();
    world.want(&[ROUTE, "address eth7 192.0.2.8 24"]);
    world.start_client();
    for report in [
        "network-failed route 0.0.0.0/0 512 Network is unreachable (os error 101)",
        "network-failed address eth7 192.0.2.8 there is no link `eth7` that this program serves",
    ] {
        until(report, || world.requests().iter().any(|line| line == report).then_some(()));
    }
    world.want(&[ROUTE, ADDRESS]);
    until("the route is set", || {
        world.requests().iter().any(|line| *line == format!("network-set {ROUTE}")).then_some(())
    });
}

#[test]
fn a_lease_goes_on_beside_an_address_unless_dhcp_is_off() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LEASE));
    world.start_init();
    world.want(&[ADDRESS]);
    world.start_client();
    until("both", || {
        (has_address(&world, "192.0.2.7/24") && has_address(&world, "10.9.0.50/24")).then_some(())
    });
    world.want(&[ADDRESS, "link eth0 dhcp off"]);
    until("the lease is gone", || (!has_address(&world, "10.9.0.50/24")).then_some(()));
    assert!(has_address(&world, "192.0.2.7/24"));
    world.want(&[ADDRESS]);
    until("it is back", || has_address(&world, "10.9.0.50/24").then_some(()));
    drop(server);
}

#[test]
fn a_withdrawn_address_leaves_the_lease_of_its_subnet() {
    let mut world = World::new();
    // As `init` does.
    let file = "/proc/sys/net/ipv4/conf/all/promote_secondaries";
    in_side(&world.client_side, || std::fs::write(file, "1").unwrap());
    let server = Server::start(&world, None);
    world.start_init();
    world.want(&["address eth0 10.9.0.7 24"]);
    world.start_client();
    world.until_address("10.9.0.7/24");
    server.give(Some(LEASE));
    until("both", || (world.addresses() == ["10.9.0.7/24", "10.9.0.50/24"]).then_some(()));
    world.want(&[]);
    world.until_address("10.9.0.50/24");
    thread::sleep(REPAIR_TIMEOUT);
    assert_eq!(world.addresses(), ["10.9.0.50/24"]);
}

/// Whether the client's link is on, as `ip` shows its flags.
fn is_on(world: &World) -> bool {
    world.ip(&format!("link show dev {LINK}")).contains(",UP")
}

#[test]
fn a_link_is_off_and_stays_so_while_a_setting_says_so() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LEASE));
    world.start_init();
    world.want(&[]);
    let client = world.start_client();
    world.until_address("10.9.0.50/24");
    world.want(&["link eth0 state down", ADDRESS]);
    until("the link is off", || (!is_on(&world)).then_some(()));
    until("the lease is gone", || world.addresses().is_empty().then_some(()));
    let reports = [
        "network-set link eth0 state down",
        "network-failed address eth0 192.0.2.7 a setting switches",
    ];
    for report in reports {
        until(report, || world.requests().iter().any(|line| line.contains(report)).then_some(()));
    }
    run(&format!("ip -n {} link set {LINK} up", world.client_side));
    until("it is off again", || (!is_on(&world)).then_some(()));
    // A client that starts switches on the links that are off, but for this one.
    world.end(client, "-KILL");
    let before = world.requests().len();
    let client = world.start_client();
    until("the report, again", || (world.requests().len() > before).then_some(()));
    thread::sleep(REPAIR_TIMEOUT);
    assert!(!is_on(&world));
    world.want(&[ADDRESS]);
    until("the link is on", || is_on(&world).then_some(()));
    until("the lease is back", || has_address(&world, "10.9.0.50/24").then_some(()));
    until("the address is there", || has_address(&world, "192.0.2.7/24").then_some(()));
    world.end(client, "-TERM");
    drop(server);
}

#[test]
fn a_link_is_switched_on_again_while_a_setting_says_so() {
    let mut world = World::new();
    world.start_init();
    world.want(&["link eth0 state up", ADDRESS6]);
    world.start_client();
    until("the address", || has_address(&world, "2001:db8::7/64").then_some(()));
    run(&format!("ip -n {} link set {LINK} down", world.client_side));
    until("the link is on", || is_on(&world).then_some(()));
    until("the address is back", || has_address(&world, "2001:db8::7/64").then_some(()));
}

#[test]
fn a_link_without_dhcp_never_asks() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LEASE));
    world.start_init();
    world.want(&[ADDRESS, "link eth0 dhcp off"]);
    world.start_client();
    until("the address", || has_address(&world, "192.0.2.7/24").then_some(()));
    thread::sleep(Duration::from_secs(2));
    assert!(server.received().is_empty());
}
