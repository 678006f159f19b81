//! The client on a link whose router advertises itself: dnsmasq (Debian package `dnsmasq-base`).
//! The node forwards packets as well, so by default it would ignore router advertisements.

mod world;

use std::net::Ipv6Addr;
use std::thread;
use std::time::{Duration, Instant};

use world::{LINK, SERVER_LINK, World, run, until};

/// The advertised prefix, and what is in it.
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 0);
const ROUTER: &str = "2001:db8:9::1";

/// Starts a router that advertises the prefix, and nothing of IPv4.
fn start_router(world: &mut World, more: &[&str]) -> u32 {
    let server = &world.server_side;
    run(&format!("ip -n {server} address replace {ROUTER}/64 dev {SERVER_LINK} nodad"));
    let mut arguments = vec![
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
        "--leasefile-ro",
        "--enable-ra",
    ];
    let (interface, range) =
        (format!("--interface={SERVER_LINK}"), format!("--dhcp-range={PREFIX},ra-only,64,10m"));
    let pid_file = format!("--pid-file={}", world.path("router.pid"));
    arguments.extend([interface.as_str(), &range, &pid_file, "--log-dhcp", "--user=root"]);
    arguments.extend(more);
    world.start_server("/usr/sbin/dnsmasq", &arguments)
}

#[test]
fn a_network_with_ipv6_alone_gives_address_route_and_name_servers() {
    let mut world = World::new();
    world.make_router();
    world.start_init();
    let options = [
        "--dhcp-option=option6:dns-server,[2001:db8:9::53],[fe80::1]",
        "--dhcp-option=option6:domain-search,eng.example,example",
    ];
    start_router(&mut world, &options);
    world.start_client();
    let address = world.address_in(PREFIX);
    until("the line about the address", || {
        world.requests().contains(&format!("address {address}/64 on {LINK}")).then_some(())
    });
    until("the name server", || world.last_request("resolv "));
    assert_eq!(
        world.last_request("resolv ").unwrap(),
        "resolv 2001:db8:9::53 search eng.example example"
    );
    assert!(
        world.ip("-6 route show").contains("default via fe80::"),
        "{}",
        world.ip("-6 route show")
    );
    let shown = world.ip(&format!("-6 address show dev {LINK}"));
    assert!(!shown.contains("temporary"), "a node keeps its address: {shown}");
}

#[test]
fn a_restarted_client_solicits_the_routers_again() {
    let mut world = World::new();
    world.make_router();
    world.start_init();
    // A router that sends unsolicited advertisements once in ten minutes.
    start_router(
        &mut world,
        &["--dhcp-option=option6:dns-server,[2001:db8:9::53]", "--ra-param=eth1,600,1800"],
    );
    let client = world.start_client();
    until("the name server", || world.last_request("resolv "));
    // dnsmasq sends more of them in its first minute, but not at once.
    thread::sleep(Duration::from_secs(2));
    world.end(client, "-KILL");
    let before = world.requests().len();
    let solicitations = |world: &World| world.log().matches("eth0: solicits routers").count();
    let solicited = solicitations(&world);
    world.start_client();
    let start = Instant::now();
    until("a solicitation", || (solicitations(&world) > solicited).then_some(()));
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let again = |start: &str| {
        world.requests()[before..].iter().any(|line| line.starts_with(start)).then_some(())
    };
    until("the address, again", || again("address 2001:db8:9:"));
    until("the name server, again", || again("resolv 2001:db8:9::53"));
}

#[test]
fn a_link_that_had_a_tiny_mtu_has_the_address_of_its_router_again() {
    let mut world = World::new();
    world.make_router();
    world.start_init();
    start_router(&mut world, &[]);
    world.start_client();
    let address = world.address_in(PREFIX).to_string();
    let has_address = || world.ip(&format!("-6 address show dev {LINK}")).contains(&address);
    until("the address", || has_address().then_some(()));
    world.want(&["link eth0 mtu 1000"]);
    until("a link without IPv6", || (!has_address()).then_some(()));
    world.want(&[]);
    until("the address, again", || has_address().then_some(()));
}

#[test]
fn name_servers_of_leases_and_routers_stand_beside_each_other() {
    let mut world = World::new();
    world.make_router();
    world.start_init();
    start_router(
        &mut world,
        &[
            "--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m",
            "--dhcp-option=option:dns-server,10.9.0.1,10.9.0.2,10.9.0.3",
            "--dhcp-option=option6:dns-server,[2001:db8:9::53]",
        ],
    );
    world.start_client();
    let address = world.address_in(PREFIX);
    let both = "resolv 10.9.0.1 10.9.0.2 2001:db8:9::53";
    until("name servers of both", || world.requests().contains(&both.to_owned()).then_some(()));
    let line = format!("address 10.9.0.50/24 {address}/64 on {LINK}");
    until("addresses of both", || world.requests().contains(&line).then_some(()));
}

#[test]
fn an_address_that_goes_is_taken_back() {
    let mut world = World::new();
    world.make_router();
    world.start_init();
    start_router(&mut world, &[]);
    world.start_client();
    let address = world.address_in(PREFIX);
    until("the address", || {
        world.requests().contains(&format!("address {address}/64 on {LINK}")).then_some(())
    });
    run(&format!("ip -n {} address delete {address}/64 dev {LINK}", world.client_side));
    until("an empty address list", || {
        (world.last_request("address").unwrap() == format!("address on {LINK}")).then_some(())
    });
}

#[test]
fn links_that_a_cni_made_are_left_alone() {
    let mut world = World::new();
    world.make_router();
    world.start_init();
    start_router(&mut world, &["--dhcp-range=10.9.0.50,10.9.0.50,255.255.255.0,2m"]);
    let side = world.client_side.clone();
    // As `bridge`, `ptp`, Calico, Cilium, flannel and a VPN leave them; and eth0, itself a veth.
    for link in [
        "cni0 type bridge",
        "cali0 type veth peer name cali1",
        "flannel.1 type vxlan id 1 dstport 8472 local 127.0.0.1",
        "tap0 mode tap",
    ] {
        let command = if link.contains("mode tap") { "tuntap add" } else { "link add" };
        run(&format!("ip -n {side} {command} {link}"));
    }
    world.start_client_with(&[]);
    world.start_client_with(&["--link", "*", "--link", "e*"]);
    world.start_client_with(&["--link", LINK, "--except", "et*"]);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(world.requests(), [""; 0]);
    for link in ["eth0", "cni0", "cali0", "flannel.1", "tap0"] {
        assert!(
            !world.log().lines().any(|line| line.starts_with(&format!("{link}: "))),
            "{}",
            world.log()
        );
        assert!(
            !world.ip(&format!("link show dev {link}")).contains(",UP"),
            "{link} is switched on"
        );
    }
}
