//! The network of a machine. It has a network of its own, or one that several nodes share.
//!
//! QEMU's user network (`slirp`) connects one machine to the host without any privilege: a DHCP
//! server, router advertisements, a name server, and the host at 10.0.2.2. On a shared network each
//! node keeps its own user network, and a [`switch`] of this process carries the frames between the
//! nodes. Their sockets are in one folder, so they need no common process ([`member`]).

pub mod member;
pub mod switch;

use crate::error::{Error, Result};
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The longest name of a network or a node: the limit of QEMU's DHCP server.
pub const MAX_NAME: usize = 32;

/// The most nodes that share a network. Their addresses fit the user network's 10.0.2.0/24.
pub const MAX_NODES: u8 = 100;

/// The network of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Its protocols.
    pub protocols: Protocols,
    /// The name of the network that several nodes share; `None` for a network of its own.
    pub shared: Option<String>,
}

impl Network {
    /// The folder of the shared network, below the one of all networks.
    pub fn folder(&self, cache: &Path) -> Option<PathBuf> {
        self.shared.as_ref().map(|name| cache.join("networks").join(name))
    }

    /// The IPv4 address of the node with this name, which only a shared network reads.
    ///
    /// # Errors
    /// The network has no IPv4, or has had too many names.
    pub fn address(&self, cache: &Path, name: Option<&str>) -> Result<String> {
        if self.protocols == Protocols::Ipv6 {
            return Err(Error::usage("a node on a network with IPv6 alone has no IPv4 address"));
        }
        let number = match (self.folder(cache), name) {
            (Some(folder), Some(name)) => member::number(&folder, name)?,
            _ => 0,
        };
        Ok(ipv4(number))
    }
}

/// The protocols of a network. It has a DHCP server for IPv4, and router advertisements with a
/// prefix and a name server for IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// IPv4 and IPv6.
    #[default]
    Both,
    /// IPv4 alone.
    Ipv4,
    /// IPv6 alone.
    Ipv6,
}

impl Protocols {
    /// All of them, with the words for them.
    pub const NAMED: [(&'static str, Protocols); 3] =
        [("both", Protocols::Both), ("ipv4", Protocols::Ipv4), ("ipv6", Protocols::Ipv6)];

    fn named(word: &str) -> Option<Self> {
        Self::NAMED.into_iter().find_map(|(name, protocols)| (name == word).then_some(protocols))
    }
}

impl fmt::Display for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMED.into_iter().find(|(_, protocols)| protocols == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for Network {
    type Err = Error;

    /// Reads `PROTOCOLS`, `NAME` or `NAME:PROTOCOLS`.
    fn from_str(text: &str) -> Result<Self> {
        if let Some(protocols) = Protocols::named(text) {
            return Ok(Network { protocols, shared: None });
        }
        let (name, protocols) = text.split_once(':').unwrap_or((text, "both"));
        let is_mistyped = name.to_ascii_lowercase().starts_with("ipv");
        match Protocols::named(protocols) {
            Some(protocols)
                if is_name(name) && Protocols::named(name).is_none() && !is_mistyped =>
            {
                Ok(Network { protocols, shared: Some(name.to_owned()) })
            }
            _ => Err(Error::usage(format!("`{text}` is not a network")).hint(
                "write `both`, `ipv4` or `ipv6` for a network of its own, or a name of lower-case \
                 letters, digits and inner `-` for one that nodes share: `lab`, `lab:ipv6`",
            )),
        }
    }
}

/// Whether this can name a network or a node: a part of a host name, and of a file name.
pub fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The connections of a machine to a shared network.
#[derive(Clone, Debug)]
pub struct Port {
    /// The node's number on the network, below [`MAX_NODES`].
    pub number: u8,
    /// Carries the frames of the machine's network card.
    pub card: Arc<UnixStream>,
    /// Carries the frames of the machine's user network.
    pub host: Arc<UnixStream>,
}

/// The last byte of a node's addresses. QEMU's DHCP server gives 10.0.2.15 to the first machine.
fn last_byte(number: u8) -> u8 {
    15 + number
}

/// A node's IPv4 address.
pub fn ipv4(number: u8) -> String {
    format!("10.0.2.{}", last_byte(number))
}

/// The start of the hardware addresses of all nodes. `52:54:00` is QEMU's.
const MAC_PREFIX: [u8; 5] = [0x52, 0x54, 0, 0, 2];

/// A node's hardware address.
pub fn mac(number: u8) -> String {
    let [a, b, c, d, e] = MAC_PREFIX;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{:02x}", last_byte(number))
}

/// The number of the node with this hardware address.
fn number_of(mac: [u8; 6]) -> Option<u8> {
    let number = mac[5].checked_sub(last_byte(0))?;
    (mac[..5] == MAC_PREFIX && number < MAX_NODES).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_protocols_is_a_network_of_its_own() {
        for (word, protocols) in Protocols::NAMED {
            assert_eq!(word.parse(), Ok(Network { protocols, shared: None }));
            assert_eq!(protocols.to_string(), word);
        }
    }

    #[test]
    fn any_other_name_is_shared() {
        let shared = |protocols| Ok(Network { protocols, shared: Some("lab-2".to_owned()) });
        assert_eq!("lab-2".parse(), shared(Protocols::Both));
        assert_eq!("lab-2:ipv6".parse(), shared(Protocols::Ipv6));
    }

    #[test]
    fn a_mistyped_protocol_is_not_a_name() {
        for wrong in ["", "ipv5", "IPv4", "lab:", "lab:ipv", ":ipv4", "ipv6:both", "a b", "a/b"] {
            let error = wrong.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{wrong}` is not a network\nhint: ")), "{error}");
        }
    }

    #[test]
    fn names_are_parts_of_host_names() {
        for name in ["a", "node-1", &"x".repeat(MAX_NAME)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "../a", "a_b", &"x".repeat(MAX_NAME + 1)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn each_node_has_its_own_addresses() {
        assert_eq!((ipv4(0).as_str(), mac(0).as_str()), ("10.0.2.15", "52:54:00:00:02:0f"));
        for number in 0..MAX_NODES {
            let bytes: Vec<u8> =
                mac(number).split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            assert_eq!(number_of(bytes.try_into().unwrap()), Some(number));
        }
        assert_eq!(number_of([0x52, 0x54, 0, 0, 2, 14]), None);
        assert_eq!(number_of([0x52, 0x54, 0, 0x12, 0x34, 0x56]), None);
    }
}
