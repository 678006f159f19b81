//! `AddressStatuses.osbuild`: the addresses of links.

use super::ObservedType;
use super::name;
use super::netlink::{self, Family};
use crate::settings::{column, names};
use osbuild_cosi::v1::AddressStatusSpec;
use osbuild_rtnetlink::{Answer, BY_SETTING, Request, attributes, u32_at};

pub const TYPE: ObservedType = ObservedType {
    names: names("AddressStatuses", "AddressStatus"),
    columns: &[
        column("Address", "{.address}"),
        column("Link", "{.link}"),
        column("Scope", "{.scope}"),
        column("Flags", "{.flags[:]}"),
        column("Origin", "{.origin}"),
    ],
    max_count: 1024,
};

/// Bytes of the fixed part of a message about an address (`ifaddrmsg`).
const FIXED: usize = 8;

/// The attributes with all flags of an address (`IFA_FLAGS`; the fixed part has eight), and with
/// who has set it (`IFA_PROTO`).
const FLAGS: u16 = 8;
const ORIGIN: u16 = 11;

/// Names of scopes (`RT_SCOPE_…`).
const SCOPES: [(u32, &str); 5] =
    [(0, "global"), (200, "site"), (253, "link"), (254, "host"), (255, "nowhere")];

/// Names of origins (`IFAPROT_…`). Zero is none.
const ORIGINS: [(u32, &str); 6] = [
    (0, ""),
    (1, "loopback"),
    (2, "router-advertisement"),
    (3, "link-local"),
    (16, "dhcp"),
    (BY_SETTING as u32, "setting"),
];

/// The first flag (`IFA_F_SECONDARY`, `IFA_F_TEMPORARY`) has a name in each family.
const SECONDARY: u32 = 0x01;

/// Names of the other flags (`IFA_F_…`).
const FLAG_NAMES: [(u32, &str); 11] = [
    (0x02, "no-dad"),
    (0x04, "optimistic"),
    (0x08, "dad-failed"),
    (0x10, "home"),
    (0x20, "deprecated"),
    (0x40, "tentative"),
    (0x80, "permanent"),
    (0x100, "manage-temporary"),
    (0x200, "no-prefix-route"),
    (0x400, "join-multicast"),
    (0x800, "stable-privacy"),
];

/// A request for all addresses.
pub fn request() -> Request {
    Request::new(libc::RTM_GETADDR, netlink::DUMP, &[0; FIXED])
}

/// Reads an address, and the index of its link, unless the message is another one.
pub fn read(answer: &Answer) -> Option<(u32, AddressStatusSpec)> {
    let fixed = answer.payload.get(..FIXED).filter(|_| answer.kind == libc::RTM_NEWADDR)?;
    let (family, link) = (Family::of(fixed[0])?, u32_at(fixed, 4)?);
    let (mut flags, mut origin) = (u32::from(fixed[2]), 0);
    let (mut local, mut peer) = (None, None);
    for (kind, value) in attributes(&answer.payload[FIXED..]) {
        match kind {
            FLAGS => flags = u32_at(value, 0)?,
            ORIGIN => origin = (*value.first()?).into(),
            // On a point-to-point link, one is the node's and the other the peer's.
            libc::IFA_LOCAL => local = Some(family.address(value)?),
            libc::IFA_ADDRESS => peer = Some(family.address(value)?),
            _ => {}
        }
    }
    let spec = AddressStatusSpec {
        address: format!("{}/{}", local.or(peer)?, fixed[1]),
        link: String::new(),
        family: family.name().to_owned(),
        scope: name::of(fixed[3].into(), &SCOPES),
        flags: flag_names(flags, family),
        origin: name::of(origin, &ORIGINS),
    };
    Some((link, spec))
}

/// The spec with the name of its link, and its identifier.
pub fn row(spec: AddressStatusSpec, link: &str) -> (String, AddressStatusSpec) {
    let id = format!("{link}/{}", spec.address);
    (id, AddressStatusSpec { link: link.to_owned(), ..spec })
}

fn flag_names(flags: u32, family: Family) -> Vec<String> {
    let first = match family {
        Family::Ipv4 => "secondary",
        Family::Ipv6 => "temporary",
    };
    let all = [(SECONDARY, first)].into_iter().chain(FLAG_NAMES);
    all.filter(|(flag, _)| flags & flag != 0).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_rtnetlink::answers;
    use std::net::Ipv6Addr;

    #[test]
    fn all_flags_count_and_not_only_those_of_the_fixed_part() {
        let fixed = [[libc::AF_INET6 as u8, 64, 0x80, 0], 3_u32.to_ne_bytes()].concat();
        let address: Ipv6Addr = "2001:db8::7".parse().unwrap();
        let message = Request::new(libc::RTM_NEWADDR, 0, &fixed)
            .with(libc::IFA_ADDRESS, &address.octets())
            .with(FLAGS, &0x341_u32.to_ne_bytes())
            .with(ORIGIN, &[2])
            .finish(1);
        let (link, spec) = read(&answers(&message).next().unwrap()).unwrap();
        assert_eq!(link, 3);
        let (id, spec) = row(spec, "eth0");
        assert_eq!(id, "eth0/2001:db8::7/64");
        assert_eq!(spec.flags, ["temporary", "tentative", "manage-temporary", "no-prefix-route"]);
        let words = [&spec.family, &spec.scope, &spec.origin, &spec.link];
        assert_eq!(words, ["ipv6", "global", "router-advertisement", "eth0"]);
    }

    #[test]
    fn an_address_to_a_peer_is_the_nodes_own() {
        let fixed = [[libc::AF_INET as u8, 32, 0x80, 0], 3_u32.to_ne_bytes()].concat();
        let message = Request::new(libc::RTM_NEWADDR, 0, &fixed)
            .with(libc::IFA_ADDRESS, &[192, 0, 2, 9])
            .with(libc::IFA_LOCAL, &[192, 0, 2, 7])
            .finish(1);
        let (_, spec) = read(&answers(&message).next().unwrap()).unwrap();
        assert_eq!((spec.address.as_str(), spec.flags), ("192.0.2.7/32", vec!["permanent".into()]));
    }
}
