//! The kind of a link, as the kernel describes it (`IFLA_LINKINFO`). It is pure.

use osbuild_rtnetlink::{attributes, u16_at, u32_at};

/// The attributes of a VLAN (`IFLA_VLAN_ID`, `IFLA_VLAN_PROTOCOL`).
pub(crate) const VLAN_ID: u16 = 1;
pub(crate) const VLAN_PROTOCOL: u16 = 5;
/// The attributes of a bridge (`IFLA_BR_STP_STATE`, `IFLA_BR_VLAN_FILTERING`).
pub(crate) const BRIDGE_STP: u16 = 5;
pub(crate) const BRIDGE_VLAN_FILTERING: u16 = 7;

/// The attributes of a bond (`IFLA_BOND_MODE`, `IFLA_BOND_MIIMON`, `IFLA_BOND_PRIMARY`,
/// `IFLA_BOND_XMIT_HASH_POLICY`, `IFLA_BOND_AD_LACP_RATE`).
pub(crate) const BOND_MODE: u16 = 1;
pub(crate) const BOND_MIIMON: u16 = 3;
pub(crate) const BOND_PRIMARY: u16 = 11;
pub(crate) const BOND_HASH_POLICY: u16 = 14;
pub(crate) const BOND_LACP_RATE: u16 = 21;

/// The options of a bond, as the kernel numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BondNumbers {
    /// How it uses its ports.
    pub mode: u8,
    /// How often it looks at its ports, in milliseconds.
    pub miimon: u32,
    /// Which packets leave through the same port.
    pub hash_policy: u8,
    /// How often it asks for messages of LACP.
    pub lacp_rate: u8,
}

/// The kind of a link, with its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// A device.
    #[default]
    Device,
    /// A VLAN, with its identifier and the number of its protocol (`ETH_P_…`).
    Vlan(u16, u16),
    /// A bridge.
    Bridge {
        /// Whether it finds loops and opens them.
        stp: bool,
        /// Whether a packet only leaves through ports of its VLAN.
        vlan_filtering: bool,
    },
    /// A bond, and the index of its primary port.
    Bond(BondNumbers, Option<u32>),
    /// A link of WireGuard, which has packets of IP alone.
    WireGuard,
    /// Another link that software has made.
    Other,
}

impl LinkKind {
    /// Reads the attributes in `IFLA_LINKINFO`.
    pub fn read(info: &[u8]) -> Self {
        let value = |wanted| attributes(info).find(|(kind, _)| *kind == wanted);
        let Some((_, kind)) = value(libc::IFLA_INFO_KIND) else { return Self::Device };
        let data = value(libc::IFLA_INFO_DATA).map_or(&[][..], |(_, data)| data);
        let read = match kind.strip_suffix(b"\0").unwrap_or(kind) {
            b"vlan" => vlan(data),
            b"bridge" => bridge(data),
            b"bond" => bond(data),
            b"wireguard" => Some(LinkKind::WireGuard),
            _ => None,
        };
        read.unwrap_or(Self::Other)
    }

    /// Whether this program makes links of this kind.
    pub fn can_be_made(&self) -> bool {
        !matches!(self, Self::Device | Self::Other)
    }
}

fn vlan(data: &[u8]) -> Option<LinkKind> {
    let value = |wanted| attributes(data).find(|(kind, _)| *kind == wanted);
    let id = u16_at(value(VLAN_ID)?.1, 0)?;
    // It is in the order of the network.
    let protocol = u16::from_be(u16_at(value(VLAN_PROTOCOL)?.1, 0)?);
    Some(LinkKind::Vlan(id, protocol))
}

fn bridge(data: &[u8]) -> Option<LinkKind> {
    let value = |wanted| attributes(data).find(|(kind, _)| *kind == wanted);
    // The state is 2 if a program of the host has the protocol.
    let stp = u32_at(value(BRIDGE_STP)?.1, 0)? != 0;
    let vlan_filtering = value(BRIDGE_VLAN_FILTERING).is_some_and(|(_, value)| value == [1]);
    Some(LinkKind::Bridge { stp, vlan_filtering })
}

fn bond(data: &[u8]) -> Option<LinkKind> {
    let value = |wanted| attributes(data).find(|(kind, _)| *kind == wanted);
    let byte = |wanted| value(wanted)?.1.first().copied();
    let numbers = BondNumbers {
        mode: byte(BOND_MODE)?,
        miimon: u32_at(value(BOND_MIIMON)?.1, 0)?,
        hash_policy: byte(BOND_HASH_POLICY)?,
        lacp_rate: byte(BOND_LACP_RATE)?,
    };
    Some(LinkKind::Bond(numbers, value(BOND_PRIMARY).and_then(|(_, index)| u32_at(index, 0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_rtnetlink::nested;
    use proptest::prelude::*;

    #[test]
    fn a_link_without_a_kind_is_a_device() {
        assert_eq!(LinkKind::read(&[]), LinkKind::Device);
        let kind = |name: &[u8]| nested(&[(libc::IFLA_INFO_KIND, name)]);
        assert_eq!(LinkKind::read(&kind(b"veth\0")), LinkKind::Other);
        assert_eq!(LinkKind::read(&kind(b"vlan\0")), LinkKind::Other, "without its identifier");
    }

    #[test]
    fn the_options_of_a_link_are_read() {
        let link = |kind: &[u8], data: &[(u16, &[u8])]| {
            let data = nested(data);
            LinkKind::read(&nested(&[(libc::IFLA_INFO_KIND, kind), (libc::IFLA_INFO_DATA, &data)]))
        };
        let vlan = [(VLAN_ID, &[5, 0][..]), (VLAN_PROTOCOL, &[0x88, 0xa8])];
        assert_eq!(link(b"vlan\0", &vlan), LinkKind::Vlan(5, 0x88a8));
        let bridge = [(BRIDGE_STP, &[1, 0, 0, 0][..]), (BRIDGE_VLAN_FILTERING, &[1])];
        let both = LinkKind::Bridge { stp: true, vlan_filtering: true };
        assert_eq!(link(b"bridge\0", &bridge), both);
        let numbers = BondNumbers { mode: 4, miimon: 100, hash_policy: 1, lacp_rate: 1 };
        let (miimon, primary) = (100_u32.to_ne_bytes(), 7_u32.to_ne_bytes());
        let bond = [
            (BOND_MODE, &[4][..]),
            (BOND_MIIMON, &miimon),
            (BOND_PRIMARY, &primary),
            (BOND_HASH_POLICY, &[1]),
            (BOND_LACP_RATE, &[1]),
        ];
        assert_eq!(link(b"bond\0", &bond), LinkKind::Bond(numbers, Some(7)));
        assert_eq!(link(b"bond\0", &bond[1..]), LinkKind::Other);
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..6)
    }

    proptest! {
        #[test]
        fn any_attributes_are_read(
            name in prop::sample::select(vec![&b"vlan\0"[..], b"bridge", b"bond", b"veth", b""]),
            data in prop::collection::vec((0..40_u16, value()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let data: Vec<(u16, &[u8])> =
                data.iter().map(|(kind, value)| (*kind, value.as_slice())).collect();
            let data = nested(&data);
            let info =
                nested(&[(libc::IFLA_INFO_KIND, name), (libc::IFLA_INFO_DATA, data.as_slice())]);
            LinkKind::read(&info);
            LinkKind::read(&info[..cut.index(info.len())]);
        }
    }
}
