//! The client against dnsmasq (Debian package `dnsmasq-base`).

mod world;

use std::thread;
use std::time::Duration;

use world::{LINK, SERVER_LINK, World, run, until};

/// Starts dnsmasq on the server's side. It has no configuration and no leases but those of this
/// world.
fn start_dnsmasq(world: &mut World, arguments: &[&str]) -> u32 {
    let leases = format!("--dhcp-leasefile={}", world.path("leases"));
    let mut all = vec![
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
        "--log-dhcp",
        "--log-facility=-",
    ];
    let interface = format!("--interface={SERVER_LINK}");
    all.extend([
        "--dhcp-authoritative",
        "--no-ping",
        "--user=root",
        "--pid-file=",
        &interface,
        &leases,
    ]);
    all.extend(arguments);
    world.start_server("dnsmasq", &all)
}

#[test]
fn a_lease_configures_the_node() {
    let mut world = World::new();
    world.start_init();
    start_dnsmasq(
        &mut world,
        &[
            "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m",
            "--dhcp-option=option:router,10.9.0.1",
            "--dhcp-option=option:mtu,1400",
            "--dhcp-option=option:dns-server,10.9.0.1,10.9.0.2",
            "--dhcp-option=option:ntp-server,10.9.0.3",
            "--dhcp-option=option:domain-search,eng.example,example",
            "--dhcp-host=*:*:*:*:*:*,node-7",
        ],
    );
    world.start_client();
    world.until_address("10.9.0.50/24");
    let routes = until("a default route", || {
        Some(world.ip("-4 route show")).filter(|routes| routes.contains("default"))
    });
    assert!(
        routes.contains(&format!("default via 10.9.0.1 dev {LINK} proto dhcp src 10.9.0.50")),
        "{routes}"
    );
    assert!(world.ip(&format!("link show dev {LINK}")).contains("mtu 1400"));
    until("init's lines", || (world.requests().len() == 6).then_some(()));
    assert_eq!(
        world.requests(),
        [
            "router-advertisements on eth0",
            "address on eth0",
            "address 10.9.0.50/24 on eth0",
            "hostname node-7",
            "resolv 10.9.0.1 10.9.0.2 search eng.example example",
            "ntp 10.9.0.3"
        ]
    );

    let shown = world.ip(&format!("-4 address show dev {LINK}"));
    let (_, lifetime) = shown.split_once("valid_lft ").unwrap();
    let seconds: u32 = lifetime.split_once("sec").unwrap().0.parse().expect(lifetime);
    assert!((100..=121).contains(&seconds), "the address has the lifetime of the lease: {shown}");
}

#[test]
fn classless_routes_are_set_instead_of_the_router() {
    let mut world = World::new();
    start_dnsmasq(
        &mut world,
        &[
            "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m",
            "--dhcp-option=option:router,10.9.0.77",
            "--dhcp-option=option:classless-static-route,10.8.0.0/16,10.9.0.2,\
             172.31.0.1/32,0.0.0.0,0.0.0.0/0,172.31.0.1",
        ],
    );
    world.start_client();
    let routes = until("three routes", || {
        let routes = world.ip("-4 route show proto dhcp");
        (routes.lines().count() == 3).then_some(routes)
    });
    assert!(routes.contains("10.8.0.0/16 via 10.9.0.2"), "{routes}");
    assert!(routes.contains("172.31.0.1 dev eth0 scope link"), "{routes}");
    assert!(
        routes.contains("default via 172.31.0.1 dev eth0 src 10.9.0.50"),
        "a router outside the subnet: {routes}"
    );
}

#[test]
fn a_renewal_applies_changed_terms() {
    let mut world = World::new();
    world.start_init();
    let range = "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m";
    let t1 = "--dhcp-option=option:T1,4";
    let first =
        ["--dhcp-option=option:router,10.9.0.1", "--dhcp-option=option:dns-server,10.9.0.1"];
    let dnsmasq = start_dnsmasq(&mut world, &[range, t1, first[0], first[1]]);
    world.start_client();
    until("the first route", || {
        world.ip("-4 route show").contains("default via 10.9.0.1").then_some(())
    });
    world.end(dnsmasq, "-TERM");

    let second =
        ["--dhcp-option=option:router,10.9.0.2", "--dhcp-option=option:dns-server,10.9.0.2"];
    start_dnsmasq(&mut world, &[range, t1, second[0], second[1]]);
    until("the second route", || {
        world.ip("-4 route show").contains("default via 10.9.0.2").then_some(())
    });
    assert!(!world.ip("-4 route show").contains("10.9.0.1 "), "the first route is gone");
    until("the second name server", || {
        world.requests().contains(&"resolv 10.9.0.2".to_owned()).then_some(())
    });
    world.until_address("10.9.0.50/24");
}

#[track_caller]
fn until_mtu(world: &World, mtu: u16) {
    let mtu = format!("\"mtu\":{mtu},");
    until(&mtu, || world.details(LINK).contains(&mtu).then_some(()));
}

#[test]
fn a_link_has_its_own_mtu_again_when_its_lease_has_none() {
    let mut world = World::new();
    let range = "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m";
    let (t1, mtu) = ("--dhcp-option=option:T1,4", "--dhcp-option=option:mtu,1400");
    let dnsmasq = start_dnsmasq(&mut world, &[range, t1, mtu]);
    world.start_client();
    until_mtu(&world, 1400);
    world.end(dnsmasq, "-TERM");
    start_dnsmasq(&mut world, &[range, t1]);
    until_mtu(&world, 1500);
    world.until_address("10.9.0.50/24");
}

/// A world whose link has the MTU of a lease, 1400.
fn with_leased_mtu() -> World {
    let mut world = World::new();
    world.start_init();
    let range = "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m";
    start_dnsmasq(&mut world, &[range, "--dhcp-option=option:mtu,1400"]);
    world.start_client();
    until_mtu(&world, 1400);
    world
}

#[test]
fn a_link_without_dhcp_has_its_own_mtu_again() {
    let world = with_leased_mtu();
    world.want(&["link eth0 dhcp off"]);
    until_mtu(&world, 1500);
}

#[test]
fn a_link_has_its_own_mtu_again_after_a_setting_over_that_of_its_lease() {
    for mtu in [9000, 1400] {
        let world = with_leased_mtu();
        let setting = format!("link eth0 mtu {mtu}");
        world.want(&[&setting]);
        until_mtu(&world, mtu);
        let report = format!("network-set {setting}");
        until(&report, || world.requests().contains(&report).then_some(()));
        world.want(&[&setting, "link eth0 dhcp off"]);
        world.until_no_address();
        world.want(&["link eth0 dhcp off"]);
        until_mtu(&world, 1500);
    }
}

#[test]
fn a_link_has_its_own_mtu_again_after_a_lease_below_a_setting() {
    let mut world = World::new();
    world.start_init();
    world.want(&["link eth0 mtu 9000"]);
    let client = world.start_client();
    until_mtu(&world, 9000);
    let range = "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m";
    start_dnsmasq(&mut world, &[range, "--dhcp-option=option:mtu,1400"]);
    world.until_address("10.9.0.50/24");
    // One that starts again knows only what `init` remembers.
    world.end(client, "-KILL");
    let leases = world.log().matches("has 10.9.0.50/24").count();
    world.start_client();
    until("the lease, again", || {
        (world.log().matches("has 10.9.0.50/24").count() > leases).then_some(())
    });
    until_mtu(&world, 9000);
    world.want(&[]);
    until_mtu(&world, 1400);
    world.want(&["link eth0 dhcp off"]);
    until_mtu(&world, 1500);
}

#[test]
fn a_renewal_that_is_refused_leads_to_the_new_address() {
    let mut world = World::new();
    let t1 = "--dhcp-option=option:T1,4";
    let dnsmasq =
        start_dnsmasq(&mut world, &["--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m", t1]);
    world.start_client();
    world.until_address("10.9.0.50/24");
    world.end(dnsmasq, "-TERM");
    std::fs::remove_file(world.path("leases")).unwrap();

    start_dnsmasq(&mut world, &["--dhcp-range=10.9.0.60,10.9.0.60,255.255.255.0,2m", t1]);
    world.until_address("10.9.0.60/24");
}

#[test]
fn a_restarted_client_takes_no_address_that_is_refused() {
    let mut world = World::new();
    let dnsmasq = start_dnsmasq(&mut world, &["--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m"]);
    let client = world.start_client();
    world.until_address("10.9.0.50/24");
    world.end(client, "-KILL");
    world.end(dnsmasq, "-TERM");
    std::fs::remove_file(world.path("leases")).unwrap();

    start_dnsmasq(&mut world, &["--dhcp-range=10.9.0.60,10.9.0.60,255.255.255.0,2m"]);
    world.start_client();
    world.until_address("10.9.0.60/24");
}

/// Waits for the address and the default route of the lease.
#[track_caller]
fn until_whole(world: &World, what: &str) {
    until(what, || {
        let routes = world.ip("-4 route show default");
        (world.addresses() == ["10.9.0.50/24"] && routes.contains("via 10.9.0.1 dev eth0"))
            .then_some(())
    });
}

#[test]
fn what_another_program_removes_of_a_lease_is_put_back() {
    let mut world = World::new();
    start_dnsmasq(&mut world, &["--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m"]);
    world.start_client();
    until_whole(&world, "the lease");
    let side = world.client_side.clone();
    for command in ["address delete 10.9.0.50/24 dev eth0", "route delete default"] {
        run(&format!("ip -n {side} {command}"));
        until_whole(&world, command);
    }
    let has = "has 10.9.0.50/24";
    thread::sleep(Duration::from_secs(1));
    assert_eq!(world.log().matches(has).count(), 3, "its own changes are no reason for others");
}

/// The metric of the routes of a lease on the client's link.
fn metric(world: &World) -> u32 {
    let shown = world.ip(&format!("link show dev {LINK}"));
    1024 + shown.split_once(':').unwrap().0.parse::<u32>().unwrap()
}

#[test]
fn a_route_of_a_setting_with_the_metric_of_the_lease_stays() {
    let mut world = World::new();
    world.start_init();
    let routes = "--dhcp-option=option:classless-static-route,10.8.0.0/16,10.9.0.2,\
                  0.0.0.0/0,10.9.0.1";
    let range = "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m";
    start_dnsmasq(&mut world, &[range, routes]);
    world.start_client();
    until_whole(&world, "the lease");
    world.want(&[&format!("route 0.0.0.0/0 {} via 10.9.0.9 on {LINK}", metric(&world))]);
    let of_setting = format!("default via 10.9.0.9 dev {LINK} proto 111");
    let default = || world.ip("-4 route show default");
    until("the route of the setting", || default().contains(&of_setting).then_some(()));
    let stays = |leases| {
        for _ in 0..20 {
            assert!(default().starts_with(&of_setting), "{}", default());
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(world.log().matches("has 10.9.0.50/24").count(), leases);
    };
    stays(1);
    run(&format!("ip -n {} route delete 10.8.0.0/16", world.client_side));
    until("the other route of the lease", || {
        world.ip("-4 route show").contains("10.8.0.0/16 via 10.9.0.2").then_some(())
    });
    stays(2);
    world.want(&[]);
    until_whole(&world, "the route of the lease, again");
}

#[test]
fn a_link_that_was_off_has_its_lease_again_although_the_server_is_silent() {
    let mut world = World::new();
    let range = "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m";
    let dnsmasq = start_dnsmasq(&mut world, &[range]);
    world.start_client();
    until_whole(&world, "the lease");
    world.end(dnsmasq, "-TERM");
    for pause in [0, 1000] {
        run(&format!("ip -n {} link set {LINK} down", world.client_side));
        thread::sleep(Duration::from_millis(pause));
        assert_eq!(world.ip("-4 route show default"), "");
        run(&format!("ip -n {} link set {LINK} up", world.client_side));
        until_whole(&world, "the lease, again");
    }
}

#[test]
fn a_link_without_carrier_leaves_packets_to_the_other_link() {
    let mut world = World::without_cable();
    world.set_as_init(".ignore_routes_with_linkdown");
    world.plug();
    let (client, server) = (world.client_side.clone(), world.server_side.clone());
    run(&format!("ip -n {server} link add eth3 type veth peer name eth2 netns {client}"));
    run(&format!("ip -n {server} address add 10.10.0.1/24 dev eth3"));
    run(&format!("ip -n {server} link set eth3 up"));
    let ranges = ["10.9.0.50,10.9.0.50", "10.10.0.50,10.10.0.50"]
        .map(|range| format!("--dhcp-range={range},255.255.255.0,2m"));
    start_dnsmasq(&mut world, &[&ranges[0], &ranges[1], "--interface=eth3"]);
    world.start_client_with(&["--link", LINK, "--link", "eth2"]);
    until("two default routes", || {
        (world.ip("-4 route show default").lines().count() == 2).then_some(())
    });
    let way = || world.ip("route get 192.0.2.1");
    assert!(way().contains("via 10.9.0.1 dev eth0"), "{}", way());
    run(&format!("ip -n {server} link set {SERVER_LINK} down"));
    until("the loss", || world.log().contains("has lost its carrier").then_some(()));
    assert!(way().contains("via 10.10.0.1 dev eth2"), "{}", way());
    run(&format!("ip -n {server} link set {SERVER_LINK} up"));
    until("the first way, again", || way().contains("via 10.9.0.1 dev eth0").then_some(()));
}
