//! The addresses under which the node registers.

use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;

/// One address, or one of each family, the primary one first (the kubelet's `--node-ip`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct NodeAddresses(Vec<IpAddr>);

impl TryFrom<Vec<String>> for NodeAddresses {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Self, Self::Error> {
        let addresses = texts.iter().map(|text| address(text)).collect::<Result<Vec<_>, _>>()?;
        match addresses[..] {
            [_] => Ok(Self(addresses)),
            [first, second] if first.is_ipv4() != second.is_ipv4() => Ok(Self(addresses)),
            _ => Err("a node has one address, or one of each family".to_owned()),
        }
    }
}

/// An address that the kubelet accepts. Before it starts it cannot be compared with those of the
/// links.
fn address(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| format!("`{text}` is not an IP address"))?;
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    match address.is_loopback() || address.is_multicast() || is_link_local {
        true => Err(format!("other nodes cannot reach `{text}`")),
        false => Ok(address),
    }
}

impl fmt::Display for NodeAddresses {
    /// As in `--node-ip`.
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(IpAddr::to_string).collect();
        formatter.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Option<String> {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        NodeAddresses::try_from(texts).ok().map(|addresses| addresses.to_string())
    }

    #[test]
    fn a_node_has_one_address_or_one_of_each_family() {
        assert_eq!(read(&["10.0.0.1"]).as_deref(), Some("10.0.0.1"));
        assert_eq!(read(&["fd00::1", "10.0.0.1"]).as_deref(), Some("fd00::1,10.0.0.1"));
        // "Any address of this family".
        assert_eq!(read(&["::"]).as_deref(), Some("::"));
        for texts in [&[][..], &["10.0.0.1", "10.0.0.2"], &["10.0.0.1", "::1"]] {
            assert_eq!(read(texts), None, "{texts:?}");
        }
        for text in ["", "node-1", "127.0.0.1", "169.254.1.1", "fe80::1", "224.0.0.1"] {
            assert_eq!(read(&[text]), None, "{text}");
        }
    }
}
