//! `LinkStatuses.osbuild`: the network interfaces.

use super::name;
use super::rows::Rows;
use super::{ObservedType, netlink};
use crate::settings::{column, names};
use osbuild_cosi::v1::LinkStatusSpec;
use osbuild_rtnetlink::{Answer, Request, attributes, u16_at, u32_at};
use std::collections::BTreeMap;

pub const TYPE: ObservedType = ObservedType {
    names: names("LinkStatuses", "LinkStatus"),
    columns: &[
        column("Type", "{.type}"),
        column("Kind", "{.kind}"),
        column("State", "{.state}"),
        column("MTU", "{.mtu}"),
        column("Hardware address", "{.hardwareAddress}"),
        column("Master", "{.master}"),
        column("Parent", "{.parent}"),
        column("VLAN", "{.vlanId}"),
    ],
    max_count: 512,
};

/// Bytes of the fixed part of a message about a link (`ifinfomsg`).
const FIXED: usize = 16;

/// Bytes of a hardware address that the kernel has at most (`MAX_ADDR_LEN`).
const MAX_ADDRESS: usize = 32;

/// Has the kernel leave out the counters of links (`RTEXT_FILTER_SKIP_STATS`), in the attribute
/// `IFLA_EXT_MASK`.
const WITHOUT_COUNTERS: u32 = 8;
const EXT_MASK: u16 = 29;

/// The attribute with the namespace of the link that carries another one (`IFLA_LINK_NETNSID`).
const PARENT_NAMESPACE: u16 = 37;

/// The kind of pairs of links, which carry each other.
const PAIR: &str = "veth";

/// The kind of VLANs, and the attribute with their number (`IFLA_VLAN_ID`).
const VLAN: &str = "vlan";
const VLAN_ID: u16 = 1;

/// The kind of bonds, the attributes of a bond (`IFLA_BOND_MODE`, `IFLA_BOND_ACTIVE_SLAVE`), and
/// those of its ports (`IFLA_BOND_SLAVE_STATE`, `IFLA_BOND_SLAVE_MII_STATUS`).
const BOND: &str = "bond";
const BOND_MODE: u16 = 1;
const BOND_ACTIVE_PORT: u16 = 2;
const PORT_STATE: u16 = 1;
const PORT_CARRIER: u16 = 2;

/// The attributes of a port (`IFLA_INFO_SLAVE_KIND`, `IFLA_INFO_SLAVE_DATA`).
const PORT_KIND: u16 = 4;
const PORT_DATA: u16 = 5;

/// Names of modes of bonds (`BOND_MODE_…`).
const MODES: [(u32, &str); 7] = [
    (0, "balance-rr"),
    (1, "active-backup"),
    (2, "balance-xor"),
    (3, "broadcast"),
    (4, "802.3ad"),
    (5, "balance-tlb"),
    (6, "balance-alb"),
];

/// Names of states of their ports (`BOND_STATE_…`).
const PORT_STATES: [(u32, &str); 2] = [(0, "active"), (1, "backup")];

/// Names of hardware types (`ARPHRD_…`).
const TYPES: [(u32, &str); 3] = [
    (libc::ARPHRD_ETHER as u32, "ether"),
    (libc::ARPHRD_LOOPBACK as u32, "loopback"),
    (libc::ARPHRD_NONE as u32, "none"),
];

/// Names of operational states (`IF_OPER_…`, RFC 2863).
const STATES: [(u32, &str); 7] = [
    (0, "unknown"),
    (1, "not-present"),
    (2, "down"),
    (3, "lower-layer-down"),
    (4, "testing"),
    (5, "dormant"),
    (6, "up"),
];

/// A link.
#[derive(Debug)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The index of the link of which it is a port; zero if of none.
    master: u32,
    /// The index of the link that carries it; zero if there is none.
    parent: u32,
    /// The index of the port that a bond uses; zero if there is none.
    active_port: u32,
    spec: LinkStatusSpec,
}

impl Link {
    /// Its index in the kernel.
    pub fn index(&self) -> u32 {
        self.spec.index
    }
}

/// A request for all links.
pub fn request() -> Request {
    let request = Request::new(libc::RTM_GETLINK, netlink::DUMP, &[0; FIXED]);
    request.with(EXT_MASK, &WITHOUT_COUNTERS.to_ne_bytes())
}

/// Reads a link, unless the message is another one.
pub fn read(answer: &Answer) -> Option<Link> {
    let fixed = answer.payload.get(..FIXED).filter(|_| answer.kind == libc::RTM_NEWLINK)?;
    let (number, index, flags) = (u16_at(fixed, 2)?, u32_at(fixed, 4)?, u32_at(fixed, 8)?);
    let has = |flag: i32| flags & flag as u32 != 0;
    let up = has(libc::IFF_UP);
    let mut spec = LinkStatusSpec {
        index,
        r#type: name::of(number.into(), &TYPES),
        up,
        carrier: up && has(libc::IFF_LOWER_UP),
        state: name::of(0, &STATES),
        ..LinkStatusSpec::default()
    };
    let (mut name, mut master, mut active_port) = (String::new(), 0, 0);
    let (mut parent, mut is_abroad) = (0, false);
    for (kind, value) in attributes(&answer.payload[FIXED..]) {
        match kind {
            libc::IFLA_IFNAME => name = text(value),
            libc::IFLA_ADDRESS => spec.hardware_address = hardware_address(value),
            libc::IFLA_MTU => spec.mtu = u32_at(value, 0)?,
            libc::IFLA_MASTER => master = u32_at(value, 0)?,
            libc::IFLA_OPERSTATE => spec.state = name::of((*value.first()?).into(), &STATES),
            libc::IFLA_LINK => parent = u32_at(value, 0)?,
            PARENT_NAMESPACE => is_abroad = true,
            libc::IFLA_LINKINFO => active_port = read_info(value, &mut spec),
            _ => {}
        }
    }
    if is_abroad || spec.kind == PAIR {
        parent = 0;
    }
    (!name.is_empty()).then_some(Link { name, master, parent, active_port, spec })
}

/// Reads what is known of a link that software has made, or of a port. Returns the index of the
/// port that a bond uses, or zero.
fn read_info(info: &[u8], spec: &mut LinkStatusSpec) -> u32 {
    let value = |wanted| attributes(info).find(|(kind, _)| *kind == wanted);
    spec.kind = value(libc::IFLA_INFO_KIND).map_or_else(String::new, |(_, kind)| text(kind));
    let data = value(libc::IFLA_INFO_DATA).map_or(&[][..], |(_, data)| data);
    if spec.kind == VLAN {
        let id = attributes(data).find(|(kind, _)| *kind == VLAN_ID);
        spec.vlan_id = id.and_then(|(_, id)| u16_at(id, 0)).unwrap_or_default().into();
    }
    if value(PORT_KIND).is_some_and(|(_, kind)| text(kind) == BOND) {
        let data = value(PORT_DATA).map_or(&[][..], |(_, data)| data);
        spec.port_state = port_state(data).unwrap_or_default();
    }
    if spec.kind != BOND {
        return 0;
    }
    let of_bond = |wanted| attributes(data).find(|(kind, _)| *kind == wanted);
    let mode = of_bond(BOND_MODE).and_then(|(_, mode)| mode.first().copied());
    spec.bond_mode = mode.map_or_else(String::new, |mode| name::of(mode.into(), &MODES));
    of_bond(BOND_ACTIVE_PORT).and_then(|(_, index)| u32_at(index, 0)).unwrap_or_default()
}

/// Returns the state of a port in its bond: `active`, `backup` or `failed`.
fn port_state(data: &[u8]) -> Option<String> {
    let byte = |wanted| {
        let (_, value) = attributes(data).find(|(kind, _)| *kind == wanted)?;
        value.first().copied()
    };
    match byte(PORT_CARRIER)? {
        0 => Some(name::of(byte(PORT_STATE)?.into(), &PORT_STATES)),
        _ => Some("failed".to_owned()),
    }
}

/// The specs of links by their indexes, with how many addresses each has.
pub fn rows(links: BTreeMap<u32, Link>, addresses: &BTreeMap<u32, u32>) -> Rows<LinkStatusSpec> {
    let names: BTreeMap<u32, String> =
        links.iter().map(|(index, link)| (*index, link.name.clone())).collect();
    let mut rows = Rows::at_most(TYPE.max_count);
    for (index, Link { name, master, parent, active_port, spec }) in links {
        let addresses = addresses.get(&index).copied().unwrap_or_default();
        let master = names.get(&master).cloned().unwrap_or_default();
        let parent = names.get(&parent).cloned().unwrap_or_default();
        let active_port = names.get(&active_port).cloned().unwrap_or_default();
        let spec = LinkStatusSpec { master, addresses, parent, active_port, ..spec };
        rows.insert(index, name, spec);
    }
    rows
}

/// A text that ends with a zero. Names may have other bytes than UTF-8.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

fn hardware_address(bytes: &[u8]) -> String {
    let bytes = bytes.iter().take(MAX_ADDRESS).map(|byte| format!("{byte:02x}"));
    bytes.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_rtnetlink::{answers, nested};

    #[test]
    fn a_vlan_has_its_parent_and_its_number_unless_that_is_in_another_namespace() {
        let link = |index: u32, name: &[u8], parent: Option<u32>, is_abroad: bool| {
            let fixed = [[0, 0, 1, 0], index.to_ne_bytes(), [0; 4], [0; 4]].concat();
            let data = nested(&[(VLAN_ID, &5_u16.to_ne_bytes())]);
            let info = nested(&[(libc::IFLA_INFO_KIND, b"vlan\0"), (libc::IFLA_INFO_DATA, &data)]);
            let mut request = Request::new(libc::RTM_NEWLINK, 0, &fixed)
                .with(libc::IFLA_IFNAME, name)
                .with(libc::IFLA_LINKINFO, &info);
            if let Some(parent) = parent {
                request = request.with(libc::IFLA_LINK, &parent.to_ne_bytes());
            }
            if is_abroad {
                request = request.with(PARENT_NAMESPACE, &[0; 4]);
            }
            (index, read(&answers(&request.finish(1)).next().unwrap()).unwrap())
        };
        let links = [
            link(2, b"eth0", None, false),
            link(3, b"eth0.5", Some(2), false),
            link(4, b"moved", Some(2), true),
        ];
        let rows = rows(links.into(), &BTreeMap::new()).into_specs();
        let seen = |name: &str| (rows[name].parent.as_str(), rows[name].vlan_id);
        assert_eq!((seen("eth0.5"), seen("moved")), (("eth0", 5), ("", 5)));
    }

    #[test]
    fn a_bond_has_its_mode_and_the_port_that_it_uses() {
        let link = |index: u32, name: &[u8], info: &[u8]| {
            let fixed = [[0, 0, 1, 0], index.to_ne_bytes(), [0; 4], [0; 4]].concat();
            let request = Request::new(libc::RTM_NEWLINK, 0, &fixed)
                .with(libc::IFLA_IFNAME, name)
                .with(libc::IFLA_LINKINFO, info);
            (index, read(&answers(&request.finish(1)).next().unwrap()).unwrap())
        };
        let port = |state, carrier| {
            let data = nested(&[(PORT_STATE, &[state]), (PORT_CARRIER, &[carrier])]);
            nested(&[(PORT_KIND, b"bond\0"), (PORT_DATA, &data)])
        };
        let active = 3_u32.to_ne_bytes();
        let data = nested(&[(BOND_MODE, &[1]), (BOND_ACTIVE_PORT, &active)]);
        let bond = nested(&[(libc::IFLA_INFO_KIND, b"bond\0"), (libc::IFLA_INFO_DATA, &data)]);
        let links = [
            link(2, b"bond0", &bond),
            link(3, b"eth0", &port(0, 0)),
            link(4, b"eth1", &port(1, 0)),
            link(5, b"eth2", &port(1, 2)),
        ];
        let rows = rows(links.into(), &BTreeMap::new()).into_specs();
        let LinkStatusSpec { bond_mode, active_port, .. } = &rows["bond0"];
        assert_eq!((bond_mode.as_str(), active_port.as_str()), ("active-backup", "eth0"));
        let states = ["eth0", "eth1", "eth2"].map(|name| rows[name].port_state.as_str());
        assert_eq!(states, ["active", "backup", "failed"]);
    }

    #[test]
    fn a_port_of_a_bridge_has_its_master_and_its_addresses() {
        let link = |index: u32, name: &[u8], master: u32| {
            let flags = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;
            let fixed = [[0, 0, 1, 0], index.to_ne_bytes(), flags.to_ne_bytes(), [0; 4]].concat();
            let kind = Request::new(0, 0, &[]).with(libc::IFLA_INFO_KIND, b"veth\0").finish(0);
            let message = Request::new(libc::RTM_NEWLINK, 0, &fixed)
                .with(libc::IFLA_IFNAME, name)
                .with(libc::IFLA_MTU, &1450_u32.to_ne_bytes())
                .with(libc::IFLA_MASTER, &master.to_ne_bytes())
                .with(libc::IFLA_OPERSTATE, &[6])
                .with(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 0xfe])
                .with(libc::IFLA_LINKINFO, &kind[16..])
                .finish(1);
            read(&answers(&message).next().unwrap()).unwrap()
        };
        let links = [(2, link(2, b"bridge\0", 0)), (7, link(7, b"veth\xff\0", 2))];
        let rows = rows(links.into(), &[(7, 3)].into()).into_specs();
        let expected = LinkStatusSpec {
            index: 7,
            r#type: "ether".into(),
            kind: "veth".into(),
            hardware_address: "02:00:00:00:00:fe".into(),
            mtu: 1450,
            up: true,
            carrier: true,
            state: "up".into(),
            master: "bridge".into(),
            addresses: 3,
            ..LinkStatusSpec::default()
        };
        assert_eq!(rows["veth\u{fffd}"], expected);
        assert_eq!((rows["bridge"].addresses, rows["bridge"].master.as_str()), (0, ""));
    }
}
