//! The metadata of a cloud in a kernel: who reaches it through a node, and what `nft` shows.

mod world;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use world::server::in_side;
use world::{LINK, SERVER_LINK, World, run, until};

/// The addresses of the metadata, and others of the same machine.
const METADATA: [&str; 3] = ["169.254.169.254:8000", "[fd00:ec2::254]:8000", "[fd20:ce::254]:8000"];
const OTHERS: [&str; 2] = ["10.9.0.1:8000", "[2001:db8::1]:8000"];

/// How long a connection may take that is possible. One that the node drops takes all of it.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(700);

/// A node between a cloud, which listens at all addresses, and a pod, whose side is returned.
fn world(flags: &[&str]) -> (World, String, [TcpListener; 1]) {
    let mut world = World::new();
    let pod = world.add_side("pod0", "eth0");
    let (node, cloud) = (world.client_side.clone(), world.server_side.clone());
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        in_side(&node, || fs::write(format!("/proc/sys/net/{file}"), "1")).unwrap();
    }
    for words in [
        format!("{node} address add 10.8.0.1/24 dev pod0"),
        format!("{node} address add fd00:8::1/64 dev pod0 nodad"),
        format!("{node} link set pod0 up"),
        format!("{pod} address add 10.8.0.5/24 dev eth0"),
        format!("{pod} address add fd00:8::5/64 dev eth0 nodad"),
        format!("{pod} link set eth0 up"),
        format!("{pod} route add default via 10.8.0.1"),
        format!("{pod} -6 route add default via fd00:8::1"),
        format!("{cloud} address add 169.254.169.254/32 dev {SERVER_LINK}"),
        format!("{cloud} address add fd00:ec2::254/128 dev {SERVER_LINK} nodad"),
        format!("{cloud} address add fd20:ce::254/128 dev {SERVER_LINK} nodad"),
        format!("{cloud} address add 2001:db8::1/64 dev {SERVER_LINK} nodad"),
        format!("{cloud} route add 10.8.0.0/24 via 10.9.0.2"),
        format!("{cloud} -6 route add fd00:8::/64 via 2001:db8::2"),
    ] {
        run(&format!("ip -n {words}"));
    }
    world.start_init();
    let settings = [
        "address eth0 10.9.0.2 24",
        "address eth0 2001:db8::2 64",
        "route 169.254.169.254/32 512 via 10.9.0.1 on eth0",
        "route fd00:ec2::254/128 512 via 2001:db8::1 on eth0",
        "route fd20:ce::254/128 512 via 2001:db8::1 on eth0",
    ];
    world.want(&settings);
    world.start_client_with(&[&["--link", LINK], flags].concat());
    for setting in settings {
        let report = format!("network-set {setting}");
        until(&report, || world.requests().contains(&report).then_some(()));
    }
    let listener = in_side(&cloud, || TcpListener::bind("[::]:8000")).unwrap();
    (world, pod, [listener])
}

/// The addresses that a side reaches.
fn reached<'a>(side: &str, addresses: &[&'a str]) -> Vec<&'a str> {
    let reaches = |to: &&&str| {
        let to: SocketAddr = to.parse().unwrap();
        in_side(side, || TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)).is_ok()
    };
    addresses.iter().filter(reaches).copied().collect()
}

fn shown(world: &World) -> String {
    let words = ["netns", "exec", &world.client_side, "nft", "--stateless", "list", "table"];
    let output = Command::new("ip").args(words).args(["inet", "osbuild-metadata"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn a_pod_reaches_everything_but_the_metadata_and_the_node_that_too() {
    let (world, pod, _listener) = world(&[]);
    let node = world.client_side.as_str();
    // The first lookups of neighbours may take longer.
    until("the node", || (reached(node, &METADATA) == METADATA).then_some(()));
    until("the pod", || (reached(&pod, &OTHERS) == OTHERS).then_some(()));
    assert_eq!(reached(&pod, &METADATA), [""; 0]);
}

#[test]
fn a_flag_opens_the_metadata() {
    let (world, pod, _listener) = world(&["--open-metadata"]);
    until("the pod", || (reached(&pod, &METADATA) == METADATA).then_some(()));
    assert_eq!(shown(&world), "");
}

#[test]
fn nft_shows_the_rules_and_a_removed_one_is_put_back() {
    let (world, ..) = world(&[]);
    let before = shown(&world);
    assert_eq!(before.replace('\t', "    "), include_str!("metadata.nft"));
    for change in ["flush table", "delete table"] {
        run(&format!("ip netns exec {} nft {change} inet osbuild-metadata", world.client_side));
        until(change, || (shown(&world) == before).then_some(()));
    }
}
