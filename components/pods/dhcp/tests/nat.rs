//! NAT rules in a kernel: packets through a node between two networks, and what `nft` shows.

mod world;

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use world::server::in_side;
use world::{SERVER_LINK, World, run, until};

/// The node's addresses on the network that it is a host of. Those of the hosts behind it have no
/// route there.
const NODE: [&str; 2] = ["address eth0 10.9.0.2 24", "address eth0 2001:db8::2 64"];
const MASQUERADE: &str = "nat lan masquerade link=eth0 sources=10.8.0.0/24,fd00:8::/64";
const FORWARD: &str = "nat web destination link=eth0 protocol=tcp port=8080 to=10.8.0.5 to-port=80";

/// How long a connection may take that is possible.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(700);
/// How soon a foreign change is put back.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(1);

/// A node that has set these settings, and the name of the side with a host behind it.
fn world(settings: &[&str]) -> (World, String) {
    let mut world = World::new();
    let lan = world.add_side("lan0", "eth0");
    let (node, server) = (world.client_side.clone(), world.server_side.clone());
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        in_side(&node, || fs::write(format!("/proc/sys/net/{file}"), "1")).unwrap();
    }
    for words in [
        format!("{node} address add 10.8.0.1/24 dev lan0"),
        format!("{node} address add fd00:8::1/64 dev lan0 nodad"),
        format!("{node} link set lan0 up"),
        format!("{lan} address add 10.8.0.5/24 dev eth0"),
        format!("{lan} address add fd00:8::5/64 dev eth0 nodad"),
        format!("{lan} link set eth0 up"),
        format!("{lan} route add default via 10.8.0.1"),
        format!("{lan} -6 route add default via fd00:8::1"),
        format!("{server} address add 2001:db8::1/64 dev {SERVER_LINK} nodad"),
    ] {
        run(&format!("ip -n {words}"));
    }
    world.start_init();
    set(&world, settings, false);
    world.start_client();
    until_reported(&world, &NODE);
    until_reported(&world, settings);
    (world, lan)
}

/// Has the node set these settings and its addresses.
fn set(world: &World, settings: &[&str], and_wait: bool) {
    world.want(&[&NODE, settings].concat());
    if and_wait {
        until_reported(world, settings);
    }
}

#[track_caller]
fn until_reported(world: &World, settings: &[&str]) {
    for setting in settings {
        let report = format!("network-set {setting}");
        until(&report, || world.requests().contains(&report).then_some(()));
    }
}

/// The table of the node as `nft` shows it; nothing if there is none.
fn shown(world: &World) -> String {
    let words = ["netns", "exec", &world.client_side, "nft", "--stateless", "list", "table"];
    let output = Command::new("ip").args(words).args(["inet", "osbuild-nat"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn nft(world: &World, words: &str) {
    run(&format!("ip netns exec {} nft {words}", world.client_side));
}

fn listen(side: &str, at: &str) -> TcpListener {
    let listener = in_side(side, || TcpListener::bind(at)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// The source of a connection from one side, as the listener has it; none without a connection.
fn source(side: &str, to: &str, listener: &TcpListener) -> Option<IpAddr> {
    let to: SocketAddr = to.parse().unwrap();
    let _stream = in_side(side, || TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)).ok()?;
    listener.accept().ok().map(|(_, source)| source.ip())
}

fn address(word: &str) -> Option<IpAddr> {
    Some(word.parse().unwrap())
}

#[test]
fn a_masquerade_gives_hosts_behind_the_node_its_address() {
    let (world, lan) = world(&[]);
    let at = ["10.9.0.1:7000", "[2001:db8::1]:7000"];
    let listeners = at.map(|at| listen(&world.server_side, at));
    let sources = |side: &str| [0, 1].map(|number| source(side, at[number], &listeners[number]));
    assert_eq!(sources(&lan), [None, None], "no reply gets back");
    set(&world, &[MASQUERADE], true);
    let node = [address("10.9.0.2"), address("2001:db8::2")];
    until("the first lookups of neighbours are over", || (sources(&lan) == node).then_some(()));
    set(&world, &[], true);
    until("the table is gone", || shown(&world).is_empty().then_some(()));
    assert_eq!(sources(&lan), [None, None]);
}

#[test]
fn a_fixed_source_is_that_of_hosts_behind_the_node_and_not_of_the_node() {
    let fixed = "nat fixed source link=eth0 sources=0.0.0.0/0 to=10.9.0.77";
    let (world, lan) = world(&["address eth0 10.9.0.77 24", MASQUERADE, fixed]);
    let listener = listen(&world.server_side, "10.9.0.1:7000");
    assert_eq!(source(&lan, "10.9.0.1:7000", &listener), address("10.9.0.77"));
    let node = source(&world.client_side, "10.9.0.1:7000", &listener);
    assert_eq!(node, address("10.9.0.2"));
}

#[test]
fn a_forwarded_port_answers_and_no_other_connection_is_forwarded() {
    let six = "nat six destination protocol=tcp address=2001:db8::2 port=8080 to=fd00:8::5 \
               to-port=80";
    let all = "nat all destination protocol=tcp port=9090 to=10.8.0.5 to-port=80";
    let (world, lan) = world(&[MASQUERADE, FORWARD, six, all]);
    let server = world.server_side.as_str();
    let web = ["10.8.0.5:80", "[fd00:8::5]:80"].map(|at| listen(&lan, at));
    run(&format!("ip -n {server} route add default via 10.9.0.2"));
    assert_eq!(source(server, "10.9.0.2:8080", &web[0]), address("10.9.0.1"));
    assert_eq!(source(server, "10.9.0.2:9090", &web[0]), address("10.9.0.1"));
    until("the neighbour is found", || source(server, "[2001:db8::2]:8080", &web[1]));
    // Other ports of the node, and the same port of another host.
    let own = listen(&world.client_side, "10.9.0.2:80");
    assert_eq!(source(server, "10.9.0.2:80", &own), address("10.9.0.1"));
    let other = listen(server, "10.9.0.1:9090");
    assert_eq!(source(&lan, "10.9.0.1:9090", &other), address("10.9.0.2"));
    let behind = listen(&lan, "10.8.0.5:9090");
    assert_eq!(source(server, "10.8.0.5:9090", &behind), address("10.9.0.1"));
}

#[test]
fn a_port_of_a_service_stays_with_the_service() {
    let (world, lan) = world(&[FORWARD]);
    let web = listen(&lan, "10.8.0.5:80");
    let pod = listen(&lan, "10.8.0.5:81");
    run(&format!("ip -n {} route add default via 10.9.0.2", world.server_side));
    assert!(source(&world.server_side, "10.9.0.2:8080", &web).is_some());
    let hook = "{ type nat hook prerouting priority dstnat ; }";
    nft(&world, "add table ip kube-proxy");
    nft(&world, &format!("add chain ip kube-proxy nat-prerouting {hook}"));
    let rule = "tcp dport 8080 dnat to 10.8.0.5:81";
    nft(&world, &format!("add rule ip kube-proxy nat-prerouting {rule}"));
    assert!(source(&world.server_side, "10.9.0.2:8080", &pod).is_some());
}

#[test]
fn nft_shows_the_rules() {
    let (world, _) = world(&[
        MASQUERADE,
        FORWARD,
        "nat dns destination protocol=udp address=2001:db8::7 port=53 to=fd00:8::5",
        "nat tunnels masquerade link=lan* sources=10.0.0.0/8,10.1.0.0/16",
        "nat six source link=eth0 sources=fd00:8::5/128 to=2001:db8::7",
    ]);
    assert_eq!(shown(&world).replace('\t', "    "), include_str!("nat.nft"));
}

#[test]
fn what_another_program_changes_is_put_back_and_other_tables_stay() {
    let (world, _) = world(&[MASQUERADE, FORWARD]);
    nft(&world, "add table inet kube-proxy");
    let before = shown(&world);
    for change in [
        "delete table inet osbuild-nat",
        "flush table inet osbuild-nat",
        "insert rule inet osbuild-nat postrouting accept",
        "add rule inet osbuild-nat postrouting masquerade random",
        "add rule inet osbuild-nat prerouting dnat ip to 10.8.0.6",
        "add table inet osbuild-nat { flags dormant ; }",
        "add chain inet osbuild-nat more",
    ] {
        nft(&world, change);
        let start = Instant::now();
        until(change, || (shown(&world) == before).then_some(()));
        assert!(start.elapsed() < REPAIR_TIMEOUT, "{change}: {:?}", start.elapsed());
    }
    set(&world, &["firewall-rule rest drop"], true);
    until("the table is gone", || shown(&world).is_empty().then_some(()));
    let others = run(&format!("ip netns exec {} nft list tables", world.client_side));
    assert_eq!(others, "table inet osbuild-metadata\ntable inet kube-proxy\ntable inet osbuild\n");
}

#[test]
fn a_rule_of_a_link_that_is_missing_waits_for_it() {
    let (world, _) = world(&[]);
    let rule = "nat modem masquerade link=wwan* sources=10.8.0.0/24";
    set(&world, &[rule], false);
    let waits = "network-failed nat modem it waits for a link `wwan*`";
    until(waits, || {
        world.requests().iter().any(|one| one.starts_with("network-failed")).then_some(())
    });
    assert!(world.requests().iter().any(|one| one == waits), "{:?}", world.requests());
    run(&format!("ip -n {} link add wwan0 type veth peer name other", world.client_side));
    until_reported(&world, &[rule]);
    run(&format!("ip -n {} link delete wwan0", world.client_side));
    until(waits, || {
        let requests = world.requests();
        (requests.iter().filter(|one| *one == waits).count() == 2).then_some(())
    });
}

#[test]
fn a_rule_waits_for_no_link_that_is_a_modem_or_a_tunnel() {
    let (world, _) = world(&[]);
    run(&format!("ip -n {} tuntap add wwan0 mode tun", world.client_side));
    let rule = "nat modem masquerade link=wwan* sources=10.8.0.0/24";
    set(&world, &[rule], true);
    let requests = world.requests();
    assert!(!requests.iter().any(|one| one.starts_with("network-failed")), "{requests:?}");
}

#[test]
fn a_bridge_with_the_name_of_a_tunnel_is_not_tried_again_and_again() {
    let (world, _) = world(&[]);
    run(&format!("ip -n {} tuntap add br0 mode tun", world.client_side));
    set(&world, &["link br0 made bridge"], false);
    let reason = "network-failed link br0 made the node has another link `br0`";
    until(reason, || world.requests().iter().any(|one| one == reason).then_some(()));
    assert!(!world.log().contains("cannot carry out"), "{}", world.log());
}
