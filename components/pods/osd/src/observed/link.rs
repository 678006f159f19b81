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
    let (mut name, mut master) = (String::new(), 0);
    for (kind, value) in attributes(&answer.payload[FIXED..]) {
        match kind {
            libc::IFLA_IFNAME => name = text(value),
            libc::IFLA_ADDRESS => spec.hardware_address = hardware_address(value),
            libc::IFLA_MTU => spec.mtu = u32_at(value, 0)?,
            libc::IFLA_MASTER => master = u32_at(value, 0)?,
            libc::IFLA_OPERSTATE => spec.state = name::of((*value.first()?).into(), &STATES),
            libc::IFLA_LINKINFO => {
                let mut infos = attributes(value);
                let kind = infos.find(|(kind, _)| *kind == libc::IFLA_INFO_KIND);
                spec.kind = kind.map_or_else(String::new, |(_, kind)| text(kind));
            }
            _ => {}
        }
    }
    (!name.is_empty()).then_some(Link { name, master, spec })
}

/// The specs of links by their indexes, with how many addresses each has.
pub fn rows(links: BTreeMap<u32, Link>, addresses: &BTreeMap<u32, u32>) -> Rows<LinkStatusSpec> {
    let names: BTreeMap<u32, String> =
        links.iter().map(|(index, link)| (*index, link.name.clone())).collect();
    let mut rows = Rows::at_most(TYPE.max_count);
    for (index, Link { name, master, spec }) in links {
        let addresses = addresses.get(&index).copied().unwrap_or_default();
        let master = names.get(&master).cloned().unwrap_or_default();
        rows.insert(index, name, LinkStatusSpec { master, addresses, ..spec });
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
    use osbuild_rtnetlink::answers;

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
        };
        assert_eq!(rows["veth\u{fffd}"], expected);
        assert_eq!((rows["bridge"].addresses, rows["bridge"].master.as_str()), (0, ""));
    }
}
