//! Firewall rules in a kernel: which packets get to the node, and what `nft` shows.

mod world;

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use world::server::{Lease, Server, in_side};
use world::{LINK, SERVER_LINK, World, run, until};

const ADDRESS: &str = "address eth0 10.9.0.2 24";
const ADDRESS6: &str = "address eth0 2001:db8::2 64";
const OPEN: &str = "firewall-rule open accept protocol=tcp ports=7001 sources=10.9.0.0/24";
const REST: &str = "firewall-rule rest drop";
const LEASE: Lease = Lease { address: [10, 9, 0, 50], renew: 1000, rebind: 2000, expire: 3000 };

/// How long a connection may take that the node accepts. One that it drops takes all of it.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(700);
/// How soon a foreign change is put back.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(1);

/// The table on the client's side as `nft` shows it; nothing if there is none.
fn shown(world: &World) -> String {
    let words = ["netns", "exec", &world.client_side, "nft", "--stateless", "list", "table"];
    let output = Command::new("ip").args(words).args(["inet", "osbuild"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn nft(world: &World, words: &str) {
    run(&format!("ip netns exec {} nft {words}", world.client_side));
}

/// The lines of the rules of settings, which follow those that are always there.
fn rules(world: &World) -> Vec<String> {
    let shown = shown(world);
    let lines = shown.lines().map(str::trim).filter(|line| line.contains(" comment "));
    let own = lines.filter(|line| !line.contains("\"always: "));
    own.map(str::to_owned).collect()
}

/// A world whose client has set these settings.
fn world(settings: &[&str]) -> (World, u32) {
    let mut world = World::new();
    world.start_init();
    world.want(settings);
    let client = world.start_client();
    until_reported(&world, settings);
    (world, client)
}

#[track_caller]
fn until_reported(world: &World, settings: &[&str]) {
    for setting in settings {
        let report = format!("network-set {setting}");
        until(&report, || world.requests().contains(&report).then_some(()));
    }
}

/// Whether the server's side gets a connection to this address of the client's.
fn connects(world: &World, to: &str) -> bool {
    let to: SocketAddr = to.parse().unwrap();
    in_side(&world.server_side, || TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)).is_ok()
}

/// A listener of the client's side. An IPv6 address takes one only after the kernel has looked for
/// duplicates of it, which lasts a second or more.
fn listen(world: &World, at: &str) -> TcpListener {
    until(&format!("a listener at {at}"), || {
        in_side(&world.client_side, || TcpListener::bind(at)).ok()
    })
}

#[test]
fn a_port_is_open_to_the_sources_of_its_rule_and_the_rest_is_closed() {
    let (world, _) = world(&[ADDRESS]);
    let _listeners = ["10.9.0.2:7000", "10.9.0.2:7001"].map(|at| listen(&world, at));
    assert_eq!(shown(&world), "", "there is no rule");
    assert!(connects(&world, "10.9.0.2:7000") && connects(&world, "10.9.0.2:7001"));
    world.want(&[ADDRESS, OPEN, REST]);
    until_reported(&world, &[OPEN, REST]);
    assert!(connects(&world, "10.9.0.2:7001"));
    assert!(!connects(&world, "10.9.0.2:7000"));
    let side = &world.server_side;
    run(&format!("ip -n {side} address add 10.9.1.1/24 dev {SERVER_LINK}"));
    run(&format!("ip -n {side} route replace 10.9.0.2/32 dev {SERVER_LINK} src 10.9.1.1"));
    run(&format!("ip -n {} route add 10.9.1.0/24 dev {LINK}", world.client_side));
    assert!(!connects(&world, "10.9.0.2:7001"), "from another source");
    world.want(&[ADDRESS]);
    until("the table is gone", || shown(&world).is_empty().then_some(()));
    assert!(connects(&world, "10.9.0.2:7000"));
}

#[test]
fn nft_shows_the_rules_in_their_order() {
    let lines = [
        REST,
        "firewall-rule late accept priority=2000 protocol=udp ports=53,8000-8100,8050-9000",
        "firewall-rule api accept protocol=tcp ports=50000 \
         sources=10.0.0.0/8,10.1.0.0/16,2001:db8::/32",
        "firewall-rule early drop priority=1 sources=192.0.2.7/32",
        "firewall-rule ping accept protocol=icmp",
        "firewall-rule ping6 accept protocol=icmpv6 sources=fe80::/10",
        "firewall-rule pods accept links=cali*,eth0",
        "firewall-rule all accept protocol=sctp ports=1-65535 sources=0.0.0.0/0",
        "firewall-rule tunnels accept protocol=4",
    ];
    let (world, _) = world(&lines);
    assert_eq!(shown(&world).replace('\t', "    "), include_str!("firewall.nft"));
}

#[test]
fn what_another_program_changes_is_put_back_within_a_second() {
    let (world, _) = world(&[ADDRESS, OPEN, REST]);
    nft(&world, "add table ip other");
    nft(&world, "add table inet kube-proxy");
    let before = shown(&world);
    for change in [
        "delete table inet osbuild",
        "flush table inet osbuild",
        "add rule inet osbuild input accept",
        "insert rule inet osbuild input accept",
        "add chain inet osbuild input { policy drop ; }",
        "add table inet osbuild { flags dormant ; }",
        "add chain inet osbuild more",
        "add chain inet osbuild forward { type filter hook forward priority 0 ; policy drop ; }",
    ] {
        nft(&world, change);
        let start = Instant::now();
        until(change, || (shown(&world) == before).then_some(()));
        assert!(start.elapsed() < REPAIR_TIMEOUT, "{change}: {:?}", start.elapsed());
    }
    nft(&world, "flush ruleset");
    until("it is back after a flush of all", || shown(&world).contains("\"rest\"").then_some(()));
    nft(&world, "add table ip other");
    world.want(&[]);
    until("the table is gone", || shown(&world).is_empty().then_some(()));
    let others = run(&format!("ip netns exec {} nft list tables", world.client_side));
    assert_eq!(others, "table inet osbuild-metadata\ntable ip other\n");
}

#[test]
fn a_program_that_starts_again_leaves_the_rules_until_others_are_wanted() {
    let (mut world, client) = world(&[OPEN, REST]);
    let handles =
        |world: &World| run(&format!("ip netns exec {} nft -a list ruleset", world.client_side));
    let before = handles(&world);
    world.end(client, "-KILL");
    assert_eq!(handles(&world), before, "they stay without the program");
    let count = world.requests().len();
    let client = world.start_client();
    until("the rules are reported again", || {
        let report = format!("network-set {REST}");
        world.requests()[count..].contains(&report).then_some(())
    });
    assert_eq!(handles(&world), before, "none is made again");
    world.end(client, "-KILL");
    world.want(&[REST]);
    world.start_client();
    until("what was withdrawn meanwhile is gone", || (rules(&world).len() == 1).then_some(()));
    assert!(rules(&world)[0].ends_with("drop comment \"rest\""), "{:?}", rules(&world));
}

#[test]
fn a_closed_node_keeps_what_it_needs() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LEASE));
    world.start_init();
    world.want(&[REST, ADDRESS6]);
    world.start_client();
    world.until_address("10.9.0.50/24");
    // Connections that the node opens work, also to an IPv6 address that it has to look up first.
    run(&format!("ip -n {} address add 2001:db8::1/64 dev {SERVER_LINK} nodad", world.server_side));
    for at in ["10.9.0.1:7000", "[2001:db8::1]:7000"] {
        let listener = in_side(&world.server_side, || TcpListener::bind(at)).unwrap();
        let to = listener.local_addr().unwrap();
        until("the node connects", || {
            in_side(&world.client_side, || TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)).ok()
        });
    }
    // Connections of the node to itself work.
    let listener = listen(&world, "10.9.0.50:7000");
    let to = listener.local_addr().unwrap();
    until("the node connects to itself", || {
        in_side(&world.client_side, || TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)).ok()
    });
    // The other side finds the hardware address of the node, and gets no connection.
    let _listener = listen(&world, "[2001:db8::2]:7000");
    until("the other side finds the node", || {
        assert!(!connects(&world, "[2001:db8::2]:7000"), "the port is open");
        let shown = run(&format!("ip -n {} -6 neighbour show 2001:db8::2", world.server_side));
        shown.contains("lladdr").then_some(())
    });
    drop(server);
}

#[test]
fn no_packet_passes_while_rules_change() {
    let (world, _) = world(&[ADDRESS, OPEN, REST]);
    let socket = in_side(&world.client_side, || UdpSocket::bind("10.9.0.2:7000")).unwrap();
    let sender = in_side(&world.server_side, || UdpSocket::bind("10.9.0.1:0")).unwrap();
    sender.connect("10.9.0.2:7000").unwrap();
    let is_over = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let count = scope.spawn(|| {
            let mut count = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                count += u32::from(sender.send(b"x").is_ok());
                thread::sleep(Duration::from_micros(50));
            }
            count
        });
        for number in 1..=20 {
            let rule = format!("firewall-rule a accept protocol=tcp ports={number}");
            world.want(&[ADDRESS, &rule, REST]);
            until_reported(&world, &[&rule]);
        }
        is_over.store(true, Ordering::Relaxed);
        count.join().unwrap()
    });
    assert!(sent > 100, "{sent}");
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0]).is_err(), "a packet came through");
    world.want(&[ADDRESS]);
    until("the port is open", || {
        let _ = sender.send(b"x");
        socket.recv(&mut [0]).ok()
    });
}
