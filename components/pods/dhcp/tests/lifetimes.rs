//! The client over time, with a server that gives leases of a few seconds, is silent, or lies.

mod world;

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use pod_dhcp::message::{Kind, Message};
use pod_dhcp::packet;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use socket2::{Domain, Socket, Type};
use world::server::{Lease, Server, answer, in_side};
use world::{LINK, SERVER, SERVER_LINK, World, until};

const SHORT: Lease = Lease { address: [10, 9, 0, 50], renew: 2, rebind: 3, expire: 5 };
const LONG: Lease = Lease { renew: 1000, rebind: 2000, expire: 3000, ..SHORT };

#[test]
fn a_short_lease_is_kept_by_renewing() {
    let mut world = World::new();
    let server = Server::start(&world, Some(SHORT));
    world.start_client();
    world.until_address("10.9.0.50/24");
    thread::sleep(Duration::from_secs(7));
    assert_eq!(world.addresses(), ["10.9.0.50/24"]);
    let renewals =
        server.received().iter().filter(|message| !message.ciaddr.is_unspecified()).count();
    assert!((2..=3).contains(&renewals), "{renewals} renewals in 7 s");
}

#[test]
fn without_a_server_a_lease_is_rebound_expires_and_is_sought() {
    let mut world = World::new();
    let server = Server::start(&world, Some(SHORT));
    world.start_client();
    world.until_address("10.9.0.50/24");
    server.give(None);
    world.until_no_address();
    until("a new search", || {
        (server.received().last()?.kind() == Some(Kind::Discover)).then_some(())
    });
    let received =
        server.received().into_iter().skip_while(|message| message.ciaddr.is_unspecified());
    let received: Vec<_> = received
        .map(|message| (message.kind().unwrap(), !message.ciaddr.is_unspecified()))
        .collect();
    let (renew, discover) = ((Kind::Request, true), (Kind::Discover, false));
    assert_eq!(received, [renew, renew, discover], "renewed at T1, rebound at T2");
    server.give(Some(LONG));
    world.until_address("10.9.0.50/24");
}

#[test]
fn a_killed_client_s_address_ends_with_its_lease() {
    let mut world = World::new();
    Server::start(&world, Some(Lease { renew: 3, rebind: 4, ..SHORT }));
    let client = world.start_client();
    world.until_address("10.9.0.50/24");
    world.end(client, "-KILL");
    assert_eq!(world.addresses(), ["10.9.0.50/24"], "the other pods still need it");
    world.until_no_address();
    world.start_client();
    world.until_address("10.9.0.50/24");
}

#[test]
fn a_restarted_client_keeps_its_address_without_a_gap() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LONG));
    world.start_init();
    let client = world.start_client();
    until_reported(&world, "address 10.9.0.50/24 on eth0");
    assert_eq!(world.end(client, "-TERM"), Some(0));
    assert_eq!(world.addresses(), ["10.9.0.50/24"]);
    let before = server.received().len();
    let reports = world.requests().len();
    server.give(None);
    world.start_client();
    until("a request", || (server.received().len() > before).then_some(()));
    let request = &server.received()[before];
    assert_eq!(request.kind(), Some(Kind::Request), "no search: the address is known");
    assert_eq!(world.addresses(), ["10.9.0.50/24"]);
    until("a report", || world.requests()[reports..].iter().find(is_of_address).cloned());
    server.give(Some(LONG));
    until("the lease, again", || {
        (world.log().matches("has 10.9.0.50/24").count() == 2).then_some(())
    });
    let since: Vec<_> =
        world.requests().into_iter().skip(reports).filter(|one| is_of_address(&one)).collect();
    assert_eq!(since, ["address 10.9.0.50/24 on eth0"], "init never hears that it is gone");
}

fn is_of_address(request: &&String) -> bool {
    request.starts_with("address ")
}

#[track_caller]
fn until_reported(world: &World, report: &str) {
    until(report, || (world.last_request("address ")? == report).then_some(()));
}

#[test]
fn an_address_that_went_while_no_client_ran_is_reported_as_gone() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LONG));
    world.start_init();
    let client = world.start_client();
    until_reported(&world, "address 10.9.0.50/24 on eth0");
    world.end(client, "-KILL");
    server.give(None);
    run_in_client(&world, "ip address delete 10.9.0.50/24 dev eth0");
    world.start_client();
    until_reported(&world, "address on eth0");
}

#[test]
fn a_left_address_that_ends_unconfirmed_is_reported_as_gone() {
    let mut world = World::new();
    let server = Server::start(&world, Some(SHORT));
    world.start_init();
    let client = world.start_client();
    until_reported(&world, "address 10.9.0.50/24 on eth0");
    world.end(client, "-KILL");
    let before = world.requests().len();
    server.give(None);
    world.start_client();
    until("the report of the start", || (world.requests().len() > before).then_some(()));
    until_reported(&world, "address on eth0");
    assert!(world.addresses().is_empty());
}

#[test]
fn a_server_may_change_the_address_when_it_renews() {
    let mut world = World::new();
    let server = Server::start(&world, Some(SHORT));
    world.start_client();
    world.until_address("10.9.0.50/24");
    server.give(Some(Lease { address: [10, 9, 0, 60], ..LONG }));
    world.until_address("10.9.0.60/24");
}

#[test]
fn an_address_from_another_source_stays() {
    for lifetime in ["", "valid_lft 600 preferred_lft 600"] {
        let mut world = World::new();
        run_in_client(&world, &format!("ip address add 10.8.0.8/24 dev eth0 {lifetime}"));
        let server = Server::start(&world, Some(SHORT));
        world.start_client();
        until("both addresses", || {
            (world.addresses() == ["10.8.0.8/24", "10.9.0.50/24"]).then_some(())
        });
        server.give(None);
        world.until_address("10.8.0.8/24");
    }
}

#[test]
fn a_restarted_client_knows_the_address_of_an_endless_lease() {
    let mut world = World::new();
    let server = Server::start(&world, Some(Lease { expire: u32::MAX, ..SHORT }));
    let client = world.start_client();
    world.until_address("10.9.0.50/24");
    world.end(client, "-KILL");
    let before = server.received().len();
    server.give(Some(Lease { address: [10, 9, 0, 60], ..LONG }));
    world.start_client();
    until("a request", || (server.received().len() > before).then_some(()));
    assert_eq!(server.received()[before].kind(), Some(Kind::Request));
    world.until_address("10.9.0.60/24");
}

#[test]
fn a_static_address_that_is_leased_as_well_stays_static() {
    let mut world = World::new();
    world.start_init();
    world.want(&["address eth0 10.9.0.50 24"]);
    let server = Server::start(&world, None);
    world.start_client();
    world.until_address("10.9.0.50/24");
    server.give(Some(LONG));
    until("the lease", || world.log().contains("has 10.9.0.50/24 from").then_some(()));
    let shown = || world.ip(&format!("-4 address show dev {LINK}"));
    thread::sleep(Duration::from_millis(500));
    assert!(shown().contains("valid_lft forever"), "{}", shown());
    world.want(&[]);
    until("the lease alone", || {
        let shown = shown();
        (shown.contains("10.9.0.50/24") && !shown.contains("forever")).then_some(())
    });
}

#[test]
fn a_pulled_cable_is_noticed_and_its_address_confirmed() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LONG));
    world.start_client();
    world.until_address("10.9.0.50/24");
    let before = server.received().len();
    world::run(&format!("ip -n {} link set {SERVER_LINK} down", world.server_side));
    // The kernel takes up to a second to report it.
    until("the loss", || world.log().contains("has lost its carrier").then_some(()));
    world::run(&format!("ip -n {} link set {SERVER_LINK} up", world.server_side));
    let confirmation = until("a question", || server.received().get(before).cloned());
    assert_eq!(
        (confirmation.kind(), confirmation.ciaddr),
        (Some(Kind::Request), Ipv4Addr::UNSPECIFIED)
    );
    assert_eq!(world.addresses(), ["10.9.0.50/24"]);
}

#[test]
fn a_later_link_is_served_and_reported_once_init_listens() {
    let mut world = World::without_cable();
    world.start_client();
    thread::sleep(Duration::from_millis(300));
    world.plug();
    Server::start(&world, Some(LONG));
    world.until_address("10.9.0.50/24");
    world.start_init();
    until("the requests to init", || {
        (world.requests() == ["router-advertisements on eth0", "address 10.9.0.50/24 on eth0"])
            .then_some(())
    });
}

#[test]
fn links_made_by_software_are_left_alone() {
    let mut world = World::new();
    let server = Server::start(&world, Some(LONG));
    world.start_client_with(&[]);
    thread::sleep(Duration::from_secs(1));
    assert!(
        server.received().is_empty()
            && world.ip(&format!("link show dev {LINK}")).contains("state DOWN")
    );
}

#[test]
fn garbage_and_lies_are_ignored() {
    let mut world = World::new();
    let server = Server::start(&world, None);
    let client = world.start_client();
    let discover = until("a question", || server.received().first().cloned());
    let garbage = garbage(&discover);
    let shown =
        world::run(&format!("ip -n {} -oneline link show dev {SERVER_LINK}", world.server_side));
    let index = shown.split_once(':').unwrap().0;
    in_side(&world.server_side, || {
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, None).unwrap();
        let everybody =
            pod_dhcp::sys::everybody_on(index.parse().unwrap(), libc::ETH_P_IP).unwrap();
        for packet in &garbage {
            socket.send_to(packet, &everybody).unwrap();
        }
    });
    thread::sleep(Duration::from_millis(500));
    assert!(world.addresses().is_empty());
    server.give(Some(LONG));
    world.until_address("10.9.0.50/24");
    assert_eq!(
        world.end(client, "-TERM"),
        Some(0),
        "the client that received the garbage still runs"
    );
}

/// A thousand packets to the client's port, none of which is a reply to its request.
fn garbage(question: &Message) -> Vec<Vec<u8>> {
    let to_client = |payload: &[u8]| {
        let mut packet = packet::packet(SERVER, [255; 4].into(), payload);
        // The ports change places: this is from a server.
        packet[20..24].copy_from_slice(&[0, 67, 0, 68]);
        packet
    };
    let lease = Lease { address: [10, 9, 0, 66], ..LONG };
    let offer = answer(question, Kind::Offer, lease);
    let mut packets = vec![
        to_client(&Message { xid: question.xid.wrapping_add(1), ..offer.clone() }.encode()),
        to_client(&Message { chaddr: [2; 6], ..offer.clone() }.encode()),
        to_client(&Message { side: question.side, ..offer.clone() }.encode()),
        to_client(&answer(question, Kind::Ack, lease).encode()),
        to_client(&answer(question, Kind::Nak, lease).encode()),
        to_client(&Message { yiaddr: [127, 0, 0, 1].into(), ..offer.clone() }.encode()),
        to_client(&[]),
    ];
    let good = to_client(&offer.encode());
    packets.extend((0..good.len().min(280)).map(|length| good[..length].to_vec()));
    let mut runner = TestRunner::deterministic();
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..600);
    packets.extend((0..700).map(|_| to_client(&bytes.new_tree(&mut runner).unwrap().current())));
    packets
}

fn run_in_client(world: &World, command: &str) {
    world::run(&format!("ip netns exec {} {command}", world.client_side));
}
