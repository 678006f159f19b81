//! DHCP messages, which any host on the link can send, up to the requests to `init`.

use osbuild_protocol::{Request, Socket};
use pod_dhcp::message::{Kind, Message, Side, code};
use pod_dhcp::packet::{self, CLIENT_PORT, SERVER_PORT};
use pod_dhcp::settings::{self, Facts};
use pod_dhcp::terms::Terms;

use crate::target::{Memory, Outcome, Target};

/// See the module. A search list can repeat a domain with two bytes each time.
pub const TARGET: Target =
    Target { name: "dhcp_message", seeds, run, memory: Memory::per_byte(1024) };

fn run(input: &[u8]) -> Outcome {
    if let Some(payload) = packet::payload(input) {
        assert!(payload.len() < input.len());
        let _ = Message::decode(payload);
    }
    let read = Message::decode(input);
    if let Ok(message) = &read {
        let mut message = message.clone();
        // The writer leaves out empty options.
        message.options.retain(|(_, value)| !value.is_empty());
        assert_eq!(Message::decode(&message.encode()), Ok(message.clone()));
        if let Ok(terms) = Terms::read(&message) {
            are_valid(&terms);
        }
    }
    Outcome::of(&read)
}

/// The terms are consistent, and `init` accepts the requests that they lead to.
fn are_valid(terms: &Terms) {
    if let Some(lifetimes) = terms.lifetimes {
        assert!(
            lifetimes.renew < lifetimes.rebind && lifetimes.rebind < lifetimes.expire,
            "{lifetimes:?}"
        );
    }
    assert!((1..=32).contains(&terms.prefix_length));
    for route in &terms.routes {
        let host = u32::MAX.checked_shr(route.prefix_length.into()).unwrap_or(0);
        assert_eq!(u32::from(route.destination) & host, 0, "{route:?}");
    }
    let facts = Facts {
        link: "eth0",
        terms: Some(terms),
        terms6: None,
        left: None,
        addresses4: &[],
        addresses6: &[],
        name_servers6: vec![],
        search6: vec![],
    };
    init_accepts(facts);
}

/// `init` accepts the requests that report what the network has given a link.
pub fn init_accepts(facts: Facts) {
    for request in settings::requests(&[facts]) {
        let line = request.to_string();
        assert!(Request::decode(Socket::Net, &line).is_ok(), "`init` refuses `{line}`");
    }
}

/// An acknowledgement with every option that the client requests.
pub fn acknowledgement() -> Message {
    let mut message = Message::request(Kind::Ack, 7, [2, 0, 0, 0, 0, 1])
        .with(code::SERVER, &[10, 0, 0, 1])
        .with(code::LEASE_TIME, &3600u32.to_be_bytes())
        .with(code::T1, &1000u32.to_be_bytes())
        .with(code::T2, &2000u32.to_be_bytes())
        .with(code::SUBNET_MASK, &[255, 255, 255, 0])
        .with(code::ROUTERS, &[10, 0, 0, 1, 10, 0, 0, 2])
        .with(
            code::CLASSLESS_ROUTES,
            &[24, 10, 1, 2, 10, 0, 0, 5, 0, 10, 0, 0, 1, 32, 10, 0, 0, 1, 0, 0, 0, 0],
        )
        .with(code::NAME_SERVERS, &[10, 0, 0, 3])
        .with(code::NTP_SERVERS, &[10, 0, 0, 4])
        .with(code::HOST_NAME, b"Node-1")
        .with(code::DOMAIN, b"example.org")
        .with(code::SEARCH, b"\x03eng\x07example\x03org\0\x02hq\xc0\x04")
        .with(code::MTU, &1400u16.to_be_bytes());
    (message.side, message.yiaddr) = (Side::Server, [10, 0, 0, 9].into());
    message
}

fn seeds() -> Vec<Vec<u8>> {
    let whole = acknowledgement().encode();
    let mut packet = packet::packet([10, 0, 0, 1].into(), [10, 0, 0, 9].into(), &whole);
    packet[20..22].copy_from_slice(&SERVER_PORT.to_be_bytes());
    packet[22..24].copy_from_slice(&CLIENT_PORT.to_be_bytes());
    // Options that continue in the fields for file and server name.
    let mut overload = acknowledgement().with(code::OVERLOAD, &[3]).encode();
    overload[108..116].copy_from_slice(&[code::NAME_SERVERS, 4, 10, 0, 0, 5, code::PAD, code::END]);
    overload[44..50].copy_from_slice(&[code::NAME_SERVERS, 2, 10, 0, code::END, 0]);
    vec![whole, packet, overload, Message::request(Kind::Discover, 1, [0; 6]).encode()]
}
