//! Protocols in rules.

use std::fmt;
use std::net::IpAddr;

use super::super::options::number;
use crate::Refusal;

/// The protocols with names.
const NAMED: [(&str, u8); 5] =
    [("icmp", 1), ("tcp", 6), ("udp", 17), ("icmpv6", 58), ("sctp", 132)];

/// The protocol of packets, behind the IP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleProtocol(u8);

impl RuleProtocol {
    /// Those with ports, for messages.
    pub(super) const WITH_PORTS: &'static str = "`tcp`, `udp` or `sctp`";
    pub(in super::super) const TCP: Self = Self(6);
    pub(in super::super) const UDP: Self = Self(17);
    const ICMP: Self = Self(1);
    const ICMPV6: Self = Self(58);

    /// Reads a name, or the number of another protocol (IANA).
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let named = NAMED.into_iter().find(|(name, _)| *name == word);
        let named = named.map(|(_, number)| number);
        let found = named.or_else(|| number::<u8>(word).filter(|number| *number != 0));
        found.map(Self).ok_or_else(|| {
            let names = "`tcp`, `udp`, `sctp`, `icmp`, `icmpv6` or a number from 1 to 255";
            Refusal::malformed(format!("`{word}` is not a protocol: {names}"))
        })
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Whether its packets have ports.
    pub fn has_ports(self) -> bool {
        matches!(self.0, 6 | 17 | 132)
    }

    /// Whether IPv4 has it, of the protocols that only one of both has.
    pub fn is_of_ipv4(self) -> bool {
        self != Self::ICMPV6
    }

    /// Whether IPv6 has it, of the protocols that only one of both has.
    pub fn is_of_ipv6(self) -> bool {
        self != Self::ICMP
    }

    /// Whether a packet with this source can have it.
    pub(super) fn is_of(self, source: IpAddr) -> bool {
        if source.is_ipv4() { self.is_of_ipv4() } else { self.is_of_ipv6() }
    }
}

impl fmt::Display for RuleProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMED.into_iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}
