//! The qualifiers before a value of a filter, as in `tcp src port 80`.

/// The qualifiers before a value. A value without any takes those of the value before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qualifiers {
    /// The protocol, if one is named.
    pub protocol: Option<Protocol>,
    /// Which end of the packet.
    pub direction: Direction,
    /// The kind of the value.
    pub kind: Kind,
}

/// A protocol that a filter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Ethernet.
    Ether,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// Addresses of IPv4 (RFC 826).
    Arp,
    /// The reverse of it (RFC 903).
    Rarp,
    /// A protocol that IP carries.
    Inner(Inner),
}

/// A protocol that is carried by IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// With ports.
    Transport(Transport),
    /// Control messages of IPv4.
    Icmp,
    /// Control messages of IPv6.
    Icmp6,
    /// Groups of IPv4.
    Igmp,
    /// Encrypted packets.
    Esp,
    /// Authenticated packets.
    Ah,
}

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
    /// SCTP.
    Sctp = 132,
}

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Where it comes from.
    Source,
    /// Where it goes to.
    Destination,
    /// One of them.
    Either,
    /// Both.
    Both,
}

/// The kind of a value: the type qualifier of pcap-filter(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address.
    Host,
    /// Addresses with the same first bits.
    Net,
    /// A port.
    Port,
    /// Ports from one to another.
    PortRange,
    /// The number of a protocol.
    Protocol,
}

impl Protocol {
    /// The protocol with this name.
    pub fn named(name: &str) -> Option<Protocol> {
        Some(match name {
            "ether" => Protocol::Ether,
            "ip" => Protocol::Ip,
            "ip6" => Protocol::Ip6,
            "arp" => Protocol::Arp,
            "rarp" => Protocol::Rarp,
            "tcp" => Protocol::Inner(Inner::Transport(Transport::Tcp)),
            "udp" => Protocol::Inner(Inner::Transport(Transport::Udp)),
            "sctp" => Protocol::Inner(Inner::Transport(Transport::Sctp)),
            "icmp" => Protocol::Inner(Inner::Icmp),
            "icmp6" => Protocol::Inner(Inner::Icmp6),
            "igmp" => Protocol::Inner(Inner::Igmp),
            "esp" => Protocol::Inner(Inner::Esp),
            "ah" => Protocol::Inner(Inner::Ah),
            _ => return None,
        })
    }
}

impl Kind {
    /// The kind with this name.
    pub fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "host" => Kind::Host,
            "net" => Kind::Net,
            "port" => Kind::Port,
            "portrange" => Kind::PortRange,
            "proto" => Kind::Protocol,
            _ => return None,
        })
    }
}
