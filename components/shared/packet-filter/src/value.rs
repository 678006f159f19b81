//! The values of a filter: addresses, networks, ports and numbers.

use crate::condition::{Condition, Known, OUTGOING, Place, Relation, Size, TO_ALL, TO_SEVERAL};
use crate::error::FilterError;
use crate::framing::Framing;
use crate::parser::Parser;
use crate::primitive;
use crate::qualifiers::{Direction, Inner, Kind, Protocol, Qualifiers, Transport};
use crate::token::Token;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// The greatest identifier of a VLAN.
const MAX_VLAN: u16 = 4095;

/// The least number of a protocol of Ethernet. Smaller numbers are lengths (IEEE 802.3).
const MIN_ETHER_TYPE: u16 = 1501;

/// Whether the word is a value: it begins with a digit, or is an address.
pub fn is_value(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) || word.contains(':')
}

/// Whether the word is a condition by itself, or has a number behind it.
pub fn is_keyword(word: &str) -> bool {
    let words = ["vlan", "less", "greater", "inbound", "outbound", "broadcast", "multicast"];
    words.contains(&word)
}

/// The next word as a value of this kind.
pub fn value(parser: &mut Parser, qualifiers: Qualifiers) -> Result<Condition, FilterError> {
    match qualifiers.kind {
        Kind::Host => host(parser, qualifiers),
        Kind::Net => net(parser, qualifiers),
        Kind::Port => {
            let port = number::<u16>(parser, "a port")?;
            ports(parser, qualifiers, port..=port)
        }
        Kind::PortRange => {
            let range = port_range(parser)?;
            ports(parser, qualifiers, range)
        }
        Kind::Protocol => protocol(parser, qualifiers.protocol),
    }
}

/// The condition of a word that needs nothing before it, which is the next one, if it is one.
pub fn keyword(parser: &mut Parser, word: &str) -> Result<Option<Condition>, FilterError> {
    if !is_keyword(word) {
        return Ok(None);
    }
    let no_tags = parser.wrong("the links together show no VLAN tags: name one link");
    parser.word("a condition")?;
    let direction = |number| Condition::is(Place::Known(Known::Direction), Size::Word, number);
    let length =
        |relation, value| Condition::of(Place::Length, Size::Word, u32::MAX, relation, value);
    Ok(Some(match (word, parser.framing) {
        ("vlan", Framing::Cooked) => return Err(no_tags),
        ("vlan", Framing::Ethernet) => vlan(parser)?,
        ("less", _) => {
            let value = number(parser, "a number of bytes")?;
            Condition::not(length(Relation::Greater, value))
        }
        ("greater", _) => length(Relation::AtLeast, number(parser, "a number of bytes")?),
        ("outbound", _) => direction(OUTGOING),
        ("inbound", _) => Condition::not(direction(OUTGOING)),
        ("broadcast", Framing::Cooked) => direction(TO_ALL),
        ("broadcast", Framing::Ethernet) => {
            primitive::ether_host([0xff; 6], Direction::Destination)
        }
        (_, Framing::Cooked) => direction(TO_SEVERAL),
        (_, Framing::Ethernet) => {
            Condition::of(Place::Frame(0), Size::Byte, u32::MAX, Relation::SharesBits, 1)
        }
    }))
}

/// A VLAN tag. What follows in the filter is about what follows the tag.
fn vlan(parser: &mut Parser) -> Result<Condition, FilterError> {
    let behind = parser.tags;
    let id = match parser.peek() {
        Token::Word(word) if is_value(word) => {
            let wrong = parser.wrong(format!("a VLAN has a number up to {MAX_VLAN}"));
            let id = number::<u16>(parser, "a VLAN")?;
            Some(id).filter(|id| *id <= MAX_VLAN).ok_or(wrong).map(Some)?
        }
        _ => None,
    };
    parser.tags += 1;
    Ok(Condition::Vlan { id, behind })
}

fn host(parser: &mut Parser, qualifiers: Qualifiers) -> Result<Condition, FilterError> {
    let Qualifiers { protocol, direction, .. } = qualifiers;
    let start = parser.here();
    let word = parser.word("an address")?;
    let wrong = |problem: &str| start.wrong(problem);
    if protocol == Some(Protocol::Ether) {
        let address = hardware_address(word)
            .ok_or_else(|| wrong("an address of Ethernet is six bytes: `52:54:00:12:34:56`"))?;
        return match parser.framing {
            Framing::Ethernet => Ok(primitive::ether_host(address, direction)),
            Framing::Cooked => {
                Err(wrong("the links together show no addresses of Ethernet: name one link"))
            }
        };
    }
    let Ok(address) = word.parse::<IpAddr>() else {
        return Err(wrong(match word.contains('/') {
            true => "a host has no `/`: write `net` before it",
            false => "it is no address; names are not looked up",
        }));
    };
    let tags = parser.tags;
    match carrier(protocol, address).map_err(|problem| wrong(&problem))? {
        Some(carrier) => {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            Ok(primitive::net_of(carrier, address, bits, direction, tags))
        }
        None => Ok(primitive::host(address, direction, tags)),
    }
}

fn net(parser: &mut Parser, qualifiers: Qualifiers) -> Result<Condition, FilterError> {
    let Qualifiers { protocol, direction, .. } = qualifiers;
    let start = parser.here();
    let word = parser.word("a network")?;
    let wrong = |problem: &str| start.wrong(problem);
    let form = "a network is an address and the number of its first bits: `10.0.0.0/8`";
    let (address, bits) = word.split_once('/').ok_or_else(|| wrong(form))?;
    let address: IpAddr = address.parse().map_err(|_| wrong(form))?;
    let (value, all) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let bits = bits.parse::<u32>().ok().filter(|bits| *bits <= all).ok_or_else(|| wrong(form))?;
    if value.checked_shl(bits).unwrap_or(0) != 0 {
        return Err(wrong(&format!("the address has bits behind the first {bits}")));
    }
    match carrier(protocol, address).map_err(|problem| wrong(&problem))? {
        Some(carrier) => Ok(primitive::net_of(carrier, address, bits, direction, parser.tags)),
        None => Ok(primitive::net(address, bits, direction, parser.tags)),
    }
}

/// The protocol of the network that carries such an address, if one is named.
fn carrier(protocol: Option<Protocol>, address: IpAddr) -> Result<Option<u16>, String> {
    Ok(Some(match (protocol, address) {
        (None, _) => return Ok(None),
        (Some(Protocol::Ip), IpAddr::V4(_)) => primitive::IPV4,
        (Some(Protocol::Arp), IpAddr::V4(_)) => primitive::ARP,
        (Some(Protocol::Rarp), IpAddr::V4(_)) => primitive::RARP,
        (Some(Protocol::Ip6), IpAddr::V6(_)) => primitive::IPV6,
        _ => return Err("the protocol before it has no such addresses".to_owned()),
    }))
}

fn ports(
    parser: &Parser,
    Qualifiers { protocol, direction, .. }: Qualifiers,
    range: RangeInclusive<u16>,
) -> Result<Condition, FilterError> {
    let of = |transport| primitive::ports(&range, transport, direction, parser.tags);
    match protocol {
        Some(Protocol::Inner(Inner::Transport(transport))) => Ok(of(transport)),
        None => Ok(Condition::or(
            Condition::or(of(Transport::Tcp), of(Transport::Udp)),
            of(Transport::Sctp),
        )),
        Some(_) => Err(parser.wrong("only `tcp`, `udp` and `sctp` have ports")),
    }
}

fn port_range(parser: &mut Parser) -> Result<RangeInclusive<u16>, FilterError> {
    let start = parser.here();
    let word = parser.word("a range of ports")?;
    let range = word.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
        (first <= last).then_some(first..=last)
    });
    range.ok_or_else(|| start.wrong("a range of ports is two of them, the smaller first: `80-90`"))
}

fn protocol(parser: &mut Parser, of: Option<Protocol>) -> Result<Condition, FilterError> {
    let start = parser.here();
    let tags = parser.tags;
    if of == Some(Protocol::Ether) {
        let least = format!("a protocol of Ethernet has a number from {MIN_ETHER_TYPE} on");
        let number: u16 = number(parser, "a protocol")?;
        return match number {
            MIN_ETHER_TYPE.. => Ok(primitive::ether_type(number, tags)),
            _ => Err(start.wrong(&least)),
        };
    }
    let number: u8 = number(parser, "a protocol")?;
    match of {
        None => Ok(primitive::carries(number.into(), tags)),
        Some(Protocol::Ip) => Ok(primitive::carries_in_ipv4(number.into(), tags)),
        Some(Protocol::Ip6) => Ok(primitive::carries_in_ipv6(number.into(), tags)),
        Some(_) => Err(start.wrong("only `ether`, `ip` and `ip6` have numbers of protocols")),
    }
}

/// A decimal number, or one after `0x`.
fn number<T: TryFrom<u32>>(parser: &mut Parser, what: &str) -> Result<T, FilterError> {
    let start = parser.here();
    let word = parser.word(what)?;
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    let parsed = parsed.and_then(|number| T::try_from(number).ok());
    parsed
        .ok_or_else(|| start.wrong(&format!("{what} is a number, and `{word}` is none that fits")))
}

fn hardware_address(word: &str) -> Option<[u8; 6]> {
    let parts: Vec<u8> = word
        .split(':')
        .map(|part| (part.len() <= 2).then(|| u8::from_str_radix(part, 16).ok()).flatten())
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}
