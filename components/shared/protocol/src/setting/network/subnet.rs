//! The destinations of routes, and the sources of packets.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Refusal;

/// A subnet of unicast addresses; or all addresses of a family, with a prefix of no bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subnet {
    address: IpAddr,
    prefix_length: u8,
}

impl Subnet {
    /// Reads `ADDRESS/PREFIX-LENGTH`.
    ///
    /// # Errors
    /// It is malformed, has bits behind its prefix, or is one of loopback or multicast addresses.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let (address, prefix_length) = split(word)?;
        let is_subnet = first(address, prefix_length) == address
            && !address.is_loopback()
            && !address.is_multicast();
        match is_subnet {
            true => Ok(Self { address, prefix_length }),
            false => Err(Refusal::malformed(format!("`{word}` is not a subnet to route to"))),
        }
    }

    /// Reads `ADDRESS/PREFIX-LENGTH` of a network that packets come from.
    ///
    /// # Errors
    /// It is malformed, has bits behind its prefix, or no packet comes from there over a link.
    pub fn parse_source(word: &str) -> Result<Self, Refusal> {
        let (address, prefix_length) = split(word)?;
        let start = first(address, prefix_length);
        if start != address {
            let reason = format!("`{word}` has bits behind its prefix: `{start}/{prefix_length}`?");
            return Err(Refusal::malformed(reason));
        }
        let refuse = |_| Refusal::malformed(format!("no packet comes from `{word}` over a link"));
        Self::parse(word).map_err(refuse)
    }

    /// Its last address.
    pub fn last(self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let host_bits = u32::MAX.checked_shr(self.prefix_length.into()).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() | host_bits).into()
            }
            IpAddr::V6(address) => {
                let host_bits = u128::MAX.checked_shr(self.prefix_length.into()).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() | host_bits).into()
            }
        }
    }

    /// Whether an address is in both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.address <= other.last()
            && other.address <= self.last()
    }

    /// Its first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// The length of its prefix in bits.
    pub fn prefix_length(self) -> u8 {
        self.prefix_length
    }
}

/// Reads an address and a prefix length that it can have, as everybody writes them.
pub(super) fn split(word: &str) -> Result<(IpAddr, u8), Refusal> {
    let refuse = || Refusal::malformed(format!("`{word}` is not `ADDRESS/PREFIX-LENGTH`"));
    let (address, length) = word.split_once('/').ok_or_else(refuse)?;
    let address: IpAddr = address.parse().map_err(|_| refuse())?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let read = length.parse::<u8>().ok().filter(|read| *read <= max && read.to_string() == length);
    Ok((address, read.ok_or_else(refuse)?))
}

/// The first address of the subnet that an address is in.
pub(super) fn first(address: IpAddr, prefix_length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let host_bits = u32::MAX.checked_shr(prefix_length.into()).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & !host_bits).into()
        }
        IpAddr::V6(address) => {
            let host_bits = u128::MAX.checked_shr(prefix_length.into()).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & !host_bits).into()
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_subnet() {
        for word in ["0.0.0.0/0", "::/0", "198.51.100.0/24", "198.51.100.1/32", "2001:db8::/32"] {
            assert_eq!(Subnet::parse(word).unwrap().to_string(), word);
        }
        for word in
            ["default", "198.51.100.1/24", "127.0.0.0/8", "224.0.0.0/4", "ff00::/8", "::1/0"]
        {
            assert!(Subnet::parse(word).is_err(), "{word}");
        }
    }
}
