//! Which addresses a caller may have the node reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tonic::Status;
use tonic::metadata::MetadataMap;

/// The key with which `osd` says that the caller may reach all addresses. What a client sends
/// under this key does not get here.
pub const MAY_ALL: &str = "osbuild-may-reach-all";

/// Where clouds give instances their credentials, beside the link-local addresses of IPv4: Amazon,
/// Google, Alibaba, and Azure's agent.
const METADATA: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// The addresses that a caller may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachable {
    /// Every unicast address.
    All,
    /// All but those at which clouds give instances their credentials.
    NoMetadata,
}

impl Reachable {
    /// The addresses that the caller may reach, from the metadata that `osd` adds to the call.
    pub fn of(metadata: &MetadataMap) -> Reachable {
        if metadata.contains_key(MAY_ALL) { Reachable::All } else { Reachable::NoMetadata }
    }

    /// Refuses an address that the caller may not reach, and those of several machines.
    pub fn check(self, address: IpAddr) -> Result<(), Status> {
        let address = address.to_canonical();
        let is_several = match address {
            IpAddr::V4(address) => address.is_multicast() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_multicast(),
        };
        if is_several {
            return Err(Status::invalid_argument(format!("{address} is not of one machine")));
        }
        let is_link_local = matches!(address, IpAddr::V4(address) if address.is_link_local());
        match self {
            Reachable::NoMetadata if is_link_local || METADATA.contains(&address) => {
                Err(Status::permission_denied(format!(
                    "{address} may give the node's credentials, so it needs the role `admin`"
                )))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_the_node_are_for_admins() {
        for address in [
            "169.254.169.254",
            "169.254.170.2",
            "::ffff:169.254.169.254",
            "fd00:ec2::254",
            "fd20:ce::254",
            "100.100.100.200",
        ] {
            let address = address.parse().unwrap();
            assert!(Reachable::NoMetadata.check(address).is_err(), "{address}");
            assert!(Reachable::All.check(address).is_ok(), "{address}");
        }
        for address in ["127.0.0.1", "10.0.2.2", "169.253.0.1", "::1", "fe80::1", "fd00:ec2::253"] {
            let address = address.parse().unwrap();
            assert!(Reachable::NoMetadata.check(address).is_ok(), "{address}");
        }
    }

    #[test]
    fn nobody_reaches_many_machines_at_once() {
        for address in ["255.255.255.255", "224.0.0.1", "ff02::1", "::ffff:224.0.0.1"] {
            assert!(Reachable::All.check(address.parse().unwrap()).is_err(), "{address}");
        }
    }

    #[test]
    fn only_the_key_of_osd_opens_all() {
        let mut metadata = MetadataMap::new();
        assert_eq!(Reachable::of(&metadata), Reachable::NoMetadata);
        metadata.insert(MAY_ALL, "yes".parse().unwrap());
        assert_eq!(Reachable::of(&metadata), Reachable::All);
    }
}
