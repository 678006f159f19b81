//! Static addresses of links.

use std::net::{IpAddr, Ipv4Addr};

use super::LinkName;
use super::subnet::split;
use crate::Refusal;

/// An address that a link shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticAddress {
    /// The link.
    link: LinkName,
    address: IpAddr,
    prefix_length: u8,
}

impl StaticAddress {
    /// Reads a link's name and `ADDRESS/PREFIX-LENGTH`.
    ///
    /// # Errors
    /// One of them is malformed, or no machine can have the address.
    pub fn parse(link: &str, address: &str) -> Result<Self, Refusal> {
        let link = LinkName::parse(link)?;
        let (word, (address, prefix_length)) = (address, split(address)?);
        match is_of_a_machine(address) && !is_of_its_subnet(address, prefix_length) {
            true => Ok(Self { link, address, prefix_length }),
            false => Err(Refusal::malformed(format!("a machine cannot have the address `{word}`"))),
        }
    }

    /// The link.
    pub fn link(&self) -> &LinkName {
        &self.link
    }

    /// The address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The length of its subnet's prefix in bits.
    pub fn prefix_length(&self) -> u8 {
        self.prefix_length
    }

    /// `ADDRESS/PREFIX-LENGTH`.
    pub fn with_length(&self) -> String {
        format!("{}/{}", self.address, self.prefix_length)
    }
}

/// Whether a machine, and no other, may have this address on a link.
pub(super) fn is_of_a_machine(address: IpAddr) -> bool {
    let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    !is_special
        && match address {
            IpAddr::V4(address) => !address.is_broadcast(),
            IpAddr::V6(address) => address.to_ipv4_mapped().is_none(),
        }
}

/// Whether the address stands for its subnet, or for all machines there. A subnet of one or two
/// addresses has none of these (RFC 3021), and no prefix at all is no subnet.
fn is_of_its_subnet(address: IpAddr, prefix_length: u8) -> bool {
    match (address, prefix_length) {
        (_, 0) => true,
        (IpAddr::V4(address), 1..31) => {
            let host_bits = u32::MAX >> prefix_length;
            let host = Ipv4Addr::to_bits(address) & host_bits;
            host == 0 || host == host_bits
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_that_a_machine_can_have() {
        for address in ["192.0.2.7/24", "192.0.2.0/31", "192.0.2.7/32", "2001:db8::7/64"] {
            let read = StaticAddress::parse("eth0", address).unwrap();
            assert_eq!(read.with_length(), address);
        }
        for address in [
            "",
            "192.0.2.7",
            "192.0.2.7/",
            "192.0.2.7/+24",
            "192.0.2.7/024",
            "192.0.2.7/33",
            "192.0.2.7/0",
            "192.0.2.0/24",
            "192.0.2.255/24",
            "255.255.255.255/32",
            "0.0.0.0/24",
            "127.0.0.1/8",
            "224.0.0.1/4",
            "::1/128",
            "::/64",
            "ff02::1/64",
            "::ffff:192.0.2.7/120",
            "2001:db8::7/129",
        ] {
            assert!(StaticAddress::parse("eth0", address).is_err(), "{address}");
        }
        for link in ["lo", "all", "", "a/b", "a b", "sixteen-letters-"] {
            assert!(StaticAddress::parse(link, "192.0.2.7/24").is_err(), "{link}");
        }
    }
}
