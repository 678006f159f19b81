//! The conditions that one part of a filter stands for, such as `host 10.0.0.1`.

use crate::condition::{Condition, Place, Relation, Size};
use crate::qualifiers::{Direction, Inner, Transport};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Protocols of the network (linux/if_ether.h).
pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
pub const ARP: u16 = 0x0806;
pub const RARP: u16 = 0x8035;

/// Where addresses are: those of IPv4 in its header and in ARP's, and those of IPv6.
const IPV4_ENDS: (u32, u32) = (12, 16);
const ARP_ENDS: (u32, u32) = (14, 24);
const IPV6_ENDS: (u32, u32) = (8, 24);

/// The bytes of a header of IPv6.
const IPV6_HEADER: u32 = 40;

/// The protocol in a header of IPv6 behind which part of a packet follows.
const FRAGMENT: u32 = 44;

/// The network's protocol is this one.
pub fn ether_type(protocol: u16, tags: u32) -> Condition {
    Condition::is(Place::EtherType { tags }, Size::Half, protocol.into())
}

/// An address of IP is this one, in packets of IP and, for IPv4, of ARP.
pub fn host(address: IpAddr, direction: Direction, tags: u32) -> Condition {
    match address {
        IpAddr::V4(_) => {
            let of = |protocol| net_of(protocol, address, 32, direction, tags);
            Condition::or(Condition::or(of(IPV4), of(ARP)), of(RARP))
        }
        IpAddr::V6(_) => net_of(IPV6, address, 128, direction, tags),
    }
}

/// The first bits of an address are these, in packets of IP and, for IPv4, of ARP.
pub fn net(address: IpAddr, bits: u32, direction: Direction, tags: u32) -> Condition {
    let of = |protocol| net_of(protocol, address, bits, direction, tags);
    match address {
        IpAddr::V4(_) => Condition::or(Condition::or(of(IPV4), of(ARP)), of(RARP)),
        IpAddr::V6(_) => of(IPV6),
    }
}

/// The first bits of an address are these, in packets of this protocol.
pub fn net_of(
    protocol: u16,
    address: IpAddr,
    bits: u32,
    direction: Direction,
    tags: u32,
) -> Condition {
    let (source, destination) = match protocol {
        IPV6 => IPV6_ENDS,
        IPV4 => IPV4_ENDS,
        _ => ARP_ENDS,
    };
    let words = match address {
        IpAddr::V4(address) => vec![address.to_bits()],
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            [96, 64, 32, 0].map(|shift| (bits >> shift) as u32).to_vec()
        }
    };
    let end = |offset: u32| {
        let (mut condition, mut rest, mut offset) = (Condition::Always, bits, offset);
        for word in &words {
            let mask = !u32::MAX.checked_shr(rest).unwrap_or(0);
            let place = Place::Network { offset, tags };
            let part = Condition::of(place, Size::Word, mask, Relation::Equal, word & mask);
            condition = Condition::and(condition, part);
            (rest, offset) = (rest.saturating_sub(32), offset + 4);
        }
        condition
    };
    let ends = ends(direction, || end(source), || end(destination));
    Condition::and(ether_type(protocol, tags), ends)
}

/// A hardware address of Ethernet is this one.
pub fn ether_host(address: [u8; 6], direction: Direction) -> Condition {
    let [a, b, c, d, e, f] = address;
    let (high, low) = (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]));
    // The lower part differs more often.
    let end = |offset: u32| {
        Condition::and(
            Condition::is(Place::Frame(offset + 2), Size::Word, low),
            Condition::is(Place::Frame(offset), Size::Half, high.into()),
        )
    };
    ends(direction, || end(6), || end(0))
}

/// A port is one of these, in packets of a protocol that are not the rest of a longer one.
pub fn ports(
    ports: &RangeInclusive<u16>,
    transport: Transport,
    direction: Direction,
    tags: u32,
) -> Condition {
    let network = |offset| Place::Network { offset, tags };
    let carries = |offset| Condition::is(network(offset), Size::Byte, transport as u32);
    let end = |place: Place| {
        let (first, last) = (u32::from(*ports.start()), u32::from(*ports.end()));
        if first == last {
            return Condition::is(place, Size::Half, first);
        }
        Condition::and(
            Condition::of(place, Size::Half, u32::MAX, Relation::AtLeast, first),
            Condition::not(Condition::of(place, Size::Half, u32::MAX, Relation::Greater, last)),
        )
    };
    let in_ipv6 = {
        let end = |offset| end(network(IPV6_HEADER + offset));
        let ends = ends(direction, || end(0), || end(2));
        Condition::and(ether_type(IPV6, tags), Condition::and(carries(6), ends))
    };
    let in_ipv4 = {
        let is_rest = Condition::of(network(6), Size::Half, u32::MAX, Relation::SharesBits, 0x1fff);
        let is_first = Condition::and(carries(9), Condition::not(is_rest));
        let end = |offset| end(Place::BehindIpv4 { offset, tags });
        let ends = ends(direction, || end(0), || end(2));
        Condition::and(ether_type(IPV4, tags), Condition::and(is_first, ends))
    };
    Condition::or(in_ipv6, in_ipv4)
}

/// The packet carries this protocol of IP.
pub fn inner(inner: Inner, tags: u32) -> Condition {
    match inner {
        Inner::Transport(transport) => carries(transport as u32, tags),
        Inner::Icmp => carries_in_ipv4(1, tags),
        Inner::Igmp => carries_in_ipv4(2, tags),
        Inner::Icmp6 => carries_in_ipv6(58, tags),
        Inner::Esp => carries(50, tags),
        Inner::Ah => carries(51, tags),
    }
}

/// The packet carries the protocol with this number, in IPv4 or IPv6.
pub fn carries(number: u32, tags: u32) -> Condition {
    Condition::or(carries_in_ipv4(number, tags), carries_in_ipv6(number, tags))
}

/// The packet carries the protocol with this number in IPv4.
pub fn carries_in_ipv4(number: u32, tags: u32) -> Condition {
    let carries = Condition::is(Place::Network { offset: 9, tags }, Size::Byte, number);
    Condition::and(ether_type(IPV4, tags), carries)
}

/// The packet carries the protocol with this number in IPv6, or is a part of one that does.
pub fn carries_in_ipv6(number: u32, tags: u32) -> Condition {
    let is = |offset, number| Condition::is(Place::Network { offset, tags }, Size::Byte, number);
    let part = Condition::and(is(6, FRAGMENT), is(IPV6_HEADER, number));
    Condition::and(ether_type(IPV6, tags), Condition::or(part, is(6, number)))
}

fn ends(
    direction: Direction,
    source: impl Fn() -> Condition,
    destination: impl Fn() -> Condition,
) -> Condition {
    match direction {
        Direction::Source => source(),
        Direction::Destination => destination(),
        Direction::Either => Condition::or(source(), destination()),
        Direction::Both => Condition::and(source(), destination()),
    }
}
