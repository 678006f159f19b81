//! Bonds of settings, compared with what `ip` shows.

use crate::world::{World, run, until};

const BOND: &str = "link bond0 made bond mode=active-backup ports=eth0,eth2 primary=eth2";
const ADDRESS: &str = "address bond0 10.9.0.7 24";
const PORTS: [&str; 4] = ["--link", "eth0", "--link", "eth2"];

/// A world with two cables to a switch on the server's side.
fn world() -> World {
    let world = World::new();
    let (client, server) = (&world.client_side, &world.server_side);
    run(&format!("ip -n {server} link add eth3 type veth peer name eth2 netns {client}"));
    run(&format!("ip -n {server} link add switch0 type bridge"));
    run(&format!("ip -n {server} address delete 10.9.0.1/24 dev eth1"));
    run(&format!("ip -n {server} address add 10.9.0.1/24 dev switch0"));
    for link in ["eth1", "eth3"] {
        run(&format!("ip -n {server} link set {link} up master switch0"));
    }
    run(&format!("ip -n {server} link set switch0 up"));
    world.start_init();
    world
}

fn has(world: &World, link: &str, parts: &[&str]) -> bool {
    let shown = world.details(link);
    parts.iter().all(|part| shown.contains(part))
}

#[track_caller]
fn until_has(world: &World, link: &str, parts: &[&str]) {
    until(&format!("{link} has {parts:?}"), || has(world, link, parts).then_some(()));
}

#[track_caller]
fn until_ports(world: &World) {
    for port in ["eth0", "eth2"] {
        until_has(world, port, &["\"master\":\"bond0\"", "\"UP\""]);
    }
}

#[track_caller]
fn until_reached(world: &World) {
    until("a packet arrives", || world.reaches("10.9.0.1").then_some(()));
}

#[track_caller]
fn until_reported(world: &World, report: &str) {
    until(report, || world.requests().iter().any(|line| line == report).then_some(()));
}

fn index(world: &World) -> Option<String> {
    world.ip("link show dev bond0").split(':').next().map(str::to_owned)
}

fn start_dnsmasq(world: &mut World) {
    let leases = format!("--dhcp-leasefile={}", world.path("leases"));
    let words = "--keep-in-foreground --conf-file=/dev/null --port=0 --log-facility=- --no-ping \
                 --user=root --pid-file= --dhcp-authoritative --interface=switch0 \
                 --dhcp-range=10.9.0.50,10.9.0.60,255.255.255.0,2m";
    let mut words: Vec<&str> = words.split_ascii_whitespace().collect();
    words.push(&leases);
    world.start_server("dnsmasq", &words);
}

#[test]
fn a_bond_takes_over_dhcp_and_goes_on_when_a_port_fails() {
    let mut world = world();
    start_dnsmasq(&mut world);
    world.start_client_with(&PORTS);
    let leased = |link: &str| {
        let report = world.last_request("address 10.9.0.");
        report.is_some_and(|line| line.ends_with(&format!(" on {link}")))
    };
    until("a port has a lease", || (leased("eth0") || leased("eth2")).then_some(()));
    world.want(&[BOND]);
    until_has(&world, "bond0", &["\"mode\":\"active-backup\"", "\"miimon\":100"]);
    until_ports(&world);
    until("the bond has a lease", || leased("bond0").then_some(()));
    for port in ["eth0", "eth2"] {
        assert!(!world.ip(&format!("-4 address show dev {port}")).contains("10.9.0."), "{port}");
    }
    until_has(&world, "bond0", &["\"active_slave\":\"eth2\"", "\"primary\":\"eth2\""]);
    until_reached(&world);
    until_reported(&world, &format!("network-set {BOND}"));

    run(&format!("ip -n {} link set eth3 down", world.server_side));
    until_has(&world, "bond0", &["\"active_slave\":\"eth0\""]);
    until_reached(&world);
    run(&format!("ip -n {} link set eth3 up", world.server_side));
    until_has(&world, "bond0", &["\"active_slave\":\"eth2\""]);
    until_reached(&world);

    world.want(&[]);
    until("the bond is gone", || world.details("bond0").is_empty().then_some(()));
    until("a port has a lease again", || (leased("eth0") || leased("eth2")).then_some(()));
}

#[test]
fn a_bond_has_the_options_of_its_setting() {
    let mut world = world();
    let lacp = "link bond0 made bond mode=802.3ad ports=eth0,eth2 miimon=50 lacp-rate=fast \
                xmit-hash-policy=layer3+4";
    world.want(&[lacp]);
    world.start_client_with(&PORTS);
    let parts = [
        "\"mode\":\"802.3ad\"",
        "\"miimon\":50",
        "\"xmit_hash_policy\":\"layer3+4\"",
        "\"ad_lacp_rate\":\"fast\"",
    ];
    until_has(&world, "bond0", &parts);
    until_ports(&world);
    for (mode, policy) in [
        ("balance-rr", "layer2"),
        ("balance-xor", "vlan+srcmac"),
        ("broadcast", "layer2"),
        ("balance-tlb", "encap2+3"),
        ("balance-alb", "layer2"),
    ] {
        let policy_word = match policy {
            "layer2" => String::new(),
            policy => format!(" xmit-hash-policy={policy}"),
        };
        world.want(&[&format!("link bond0 made bond mode={mode} ports=eth0,eth2{policy_word}")]);
        let (mode, policy) =
            (format!("\"mode\":\"{mode}\""), format!("\"xmit_hash_policy\":\"{policy}\""));
        until_has(&world, "bond0", &[&mode, &policy, "\"miimon\":100"]);
        until_ports(&world);
    }
}

#[test]
fn what_another_program_changes_of_a_bond_is_put_back() {
    let mut world = world();
    world.want(&[BOND, ADDRESS]);
    world.start_client_with(&PORTS);
    until_ports(&world);
    until_reached(&world);
    for command in [
        "link set eth2 nomaster",
        "link set eth0 down",
        "link set bond0 down",
        "link set bond0 type bond primary eth0",
        "link set bond0 type bond miimon 70",
        "link delete bond0",
    ] {
        run(&format!("ip -n {} {command}", world.client_side));
        until_ports(&world);
        let parts = ["\"primary\":\"eth2\"", "\"miimon\":100", "\"UP\""];
        until_has(&world, "bond0", &parts);
        until_reached(&world);
    }
}

#[test]
fn a_port_that_is_no_longer_named_is_released() {
    let mut world = world();
    world.want(&[BOND, ADDRESS]);
    world.start_client_with(&PORTS);
    until_ports(&world);
    let before = index(&world);
    world.want(&["link bond0 made bond mode=active-backup ports=eth0", ADDRESS]);
    until("the port is released", || (!has(&world, "eth2", &["\"master\""])).then_some(()));
    until_has(&world, "eth2", &["\"UP\""]);
    until_reached(&world);
    assert_eq!(index(&world), before, "the link is the same");
}

#[test]
fn the_ports_of_a_bond_have_its_mtu() {
    let mut world = world();
    world.want(&[BOND, "link bond0 mtu 1400", "link eth0 mtu 1300"]);
    world.start_client_with(&PORTS);
    for link in ["bond0", "eth0", "eth2"] {
        until_has(&world, link, &["\"mtu\":1400"]);
    }
    until_ports(&world);
    until_reported(
        &world,
        "network-failed link eth0 mtu `eth0` is a port of `bond0` and has its MTU",
    );
    world.want(&[BOND]);
    for link in ["bond0", "eth0", "eth2"] {
        until_has(&world, link, &["\"mtu\":1500"]);
    }
}

#[test]
fn a_bond_carries_a_vlan_and_outlasts_the_program() {
    let mut world = world();
    let side = world.server_side.clone();
    run(&format!("ip -n {side} link add link switch0 name switch0.5 type vlan id 5"));
    run(&format!("ip -n {side} address add 192.0.2.1/24 dev switch0.5"));
    run(&format!("ip -n {side} link set switch0.5 up"));
    let all = [BOND, "link storage made vlan id=5 parent=bond0", "address storage 192.0.2.7 24"];
    world.want(&all);
    let client = world.start_client_with(&PORTS);
    let arrives =
        |world: &World| until("over the VLAN", || world.reaches("192.0.2.1").then_some(()));
    arrives(&world);
    let before = index(&world);
    world.end(client, "-KILL");
    arrives(&world);
    world.start_client_with(&PORTS);
    for report in ["router-advertisements on storage", "network-set address storage 192.0.2.7 24"] {
        until(report, || {
            (world.requests().iter().filter(|line| *line == report).count() == 2).then_some(())
        });
    }
    assert_eq!(index(&world), before, "the link is the same");
    arrives(&world);
}
