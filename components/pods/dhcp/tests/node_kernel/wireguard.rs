//! Links of WireGuard of settings, with a peer that `wg` has made on the server's side.

use std::fs;

use crate::world::{World, run, until};

/// Keys of `wg genkey`, `wg pubkey` and `wg genpsk`: those of the node, of the server's side, and
/// of a peer that nobody is.
const PRIVATE: &str = "+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=";
const PUBLIC: &str = "zRuQcVmYT+vZkRoOpvYf3mNUFJB91KzglSi6pph9cx8=";
const OTHER_PRIVATE: &str = "4FMdFgpMCwN4vr4QvvJMzqAlzSzkaLOwu52k1l3djl4=";
const OTHER_PUBLIC: &str = "lhDEwrWVBtIhCuAXH12bvf7hxyC7MyJEwCQ+K0n/shY=";
const NOBODY: &str = "I2VYQH8unqEV3+Q4DFptm46PcT4LJqU+7euvnbk9pl4=";
const PRESHARED: &str = "fLmJ9BhXlT775w7OqmDU8dZ59elGcl03roySZp5gvs4=";
const ADDRESS: &str = "address eth0 10.9.0.7 24";
const TUNNEL_ADDRESS: &str = "address wg0 10.7.0.1 24";

fn tunnel(keepalive: u32) -> String {
    format!(
        "link wg0 made wireguard private-key={PRIVATE} listen-port=51820 fwmark=0x200 \
         peers={NOBODY},allowed=10.8.0.0/24;{OTHER_PUBLIC},preshared-key={PRESHARED},\
         endpoint=10.9.0.1:51820,keepalive={keepalive},allowed=10.7.0.2/32,allowed=fd07::/64"
    )
}

/// A world whose server is the peer.
fn world() -> World {
    let world = World::new();
    let side = &world.server_side;
    let (key, preshared) = (world.path("key"), world.path("preshared"));
    fs::write(&key, OTHER_PRIVATE).unwrap();
    fs::write(&preshared, PRESHARED).unwrap();
    run(&format!("ip -n {side} link add wg1 type wireguard"));
    run(&format!(
        "ip netns exec {side} wg set wg1 private-key {key} listen-port 51820 peer {PUBLIC} \
         preshared-key {preshared} allowed-ips 10.7.0.1/32"
    ));
    run(&format!("ip -n {side} address add 10.7.0.2/24 dev wg1"));
    run(&format!("ip -n {side} link set wg1 up"));
    world.start_init();
    world
}

fn wg(world: &World, command: &str) -> String {
    run(&format!("ip netns exec {} wg {command}", world.client_side))
}

/// The link and its peers as `wg` lists them, without endpoints, times and counters.
fn listed(world: &World) -> Vec<String> {
    if world.details("wg0").is_empty() {
        return Vec::new();
    }
    let dump = wg(world, "show wg0 dump");
    let mut lines: Vec<String> = dump
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields.as_slice() {
                [key, preshared, _, networks, .., keepalive] if fields.len() == 8 => {
                    format!("{key} {preshared} {networks} {keepalive}")
                }
                _ => fields.join(" "),
            }
        })
        .collect();
    lines[1..].sort();
    lines
}

#[track_caller]
fn until_set(world: &World, keepalive: &str) {
    let expected = [
        format!("{PRIVATE} {PUBLIC} 51820 0x200"),
        format!("{NOBODY} (none) 10.8.0.0/24 off"),
        format!("{OTHER_PUBLIC} {PRESHARED} 10.7.0.2/32,fd07::/64 {keepalive}"),
    ];
    until("wg lists what the setting says", || (listed(world) == expected).then_some(()));
}

#[test]
fn a_tunnel_carries_packets_reports_its_handshake_and_goes_with_its_setting() {
    let mut world = world();
    world.want(&[ADDRESS, &tunnel(25), TUNNEL_ADDRESS]);
    world.start_client();
    until_set(&world, "25");
    until("a packet comes through the tunnel", || world.reaches("10.7.0.2").then_some(()));
    let start = format!(
        "wireguard wg0 public-key={PUBLIC} listen-port=51820 peers={NOBODY};{OTHER_PUBLIC},\
         endpoint=10.9.0.1:51820,handshake="
    );
    until("the handshake is reported", || world.last_request(&start));
    until("the address is reported", || world.last_request("address 10.7.0.1/24 on wg0").map(drop));
    assert!(world.details("wg0").contains("\"mtu\":1420"));
    let asked = world.last_request("router-advertisements on wg0");
    assert_eq!(asked, None, "a peer is no router");
    for key in [PRIVATE, PRESHARED] {
        assert!(!world.log().contains(key), "no log has a key");
    }
    world.want(&[ADDRESS]);
    until("the link is gone", || world.details("wg0").is_empty().then_some(()));
}

#[test]
fn what_another_program_changes_is_put_back() {
    let mut world = world();
    world.want(&[ADDRESS, &tunnel(25), TUNNEL_ADDRESS]);
    world.start_client();
    until_set(&world, "25");
    for command in [
        "listen-port 1 fwmark 0".to_owned(),
        format!("peer {OTHER_PUBLIC} remove"),
        format!("peer {OTHER_PUBLIC} persistent-keepalive 1 allowed-ips 0.0.0.0/0"),
        format!("peer {PUBLIC} remove peer EfRehghsL5MkxgD44beCzYATo5uzppGqbIb2N5BkqFg="),
    ] {
        wg(&world, &format!("set wg0 {command}"));
        until_set(&world, "25");
    }
    run(&format!("ip -n {} link delete wg0", world.client_side));
    until_set(&world, "25");
    until("the address is back", || {
        world.ip("address show dev wg0").contains("10.7.0.1/24").then_some(())
    });
}

#[test]
fn another_setting_and_a_restart_leave_the_link_and_its_sessions() {
    let mut world = world();
    world.want(&[ADDRESS, &tunnel(25), TUNNEL_ADDRESS]);
    let client = world.start_client();
    until_set(&world, "25");
    until("a packet comes through the tunnel", || world.reaches("10.7.0.2").then_some(()));
    let handshakes = |world: &World| wg(world, "show wg0 latest-handshakes");
    let index = |world: &World| world.ip("link show dev wg0").split(':').next().map(str::to_owned);
    let before = (handshakes(&world), index(&world));
    world.want(&[ADDRESS, &tunnel(7), TUNNEL_ADDRESS]);
    until_set(&world, "7");
    world.end(client, "-KILL");
    world.want(&[ADDRESS, &tunnel(9), TUNNEL_ADDRESS]);
    world.start_client();
    until_set(&world, "9");
    assert_eq!((handshakes(&world), index(&world)), before);
    assert!(world.reaches("10.7.0.2"));
}
