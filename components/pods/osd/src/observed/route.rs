//! `RouteStatuses.osbuild`: the routes of the main table.

use super::ObservedType;
use super::name;
use super::netlink::{self, Family};
use crate::settings::{column, names};
use osbuild_cosi::v1::RouteStatusSpec;
use osbuild_rtnetlink::{Answer, BY_SETTING, Request, attributes, u16_at, u32_at};
use std::net::IpAddr;

pub const TYPE: ObservedType = ObservedType {
    names: names("RouteStatuses", "RouteStatus"),
    columns: &[
        column("Destination", "{.destination}"),
        column("Gateway", "{.gateway}"),
        column("Link", "{.link}"),
        column("Metric", "{.metric}"),
        column("Protocol", "{.protocol}"),
    ],
    max_count: 1024,
};

/// Bytes of the fixed parts of a message about a route (`rtmsg`) and of one of its next hops
/// (`rtnexthop`).
const FIXED: usize = 12;
const FIXED_OF_HOP: usize = 8;

/// Next hops of a route that are read at most.
const MAX_HOPS: usize = 256;

/// A gateway of the other family (`RTA_VIA`): the family in two bytes, and the address.
const VIA: u16 = 18;

/// Names of protocols (`RTPROT_…`).
const PROTOCOLS: [(u32, &str); 14] = [
    (0, "unspecified"),
    (1, "redirect"),
    (2, "kernel"),
    (3, "boot"),
    (4, "static"),
    (9, "router-advertisement"),
    (11, "zebra"),
    (12, "bird"),
    (16, "dhcp"),
    (18, "keepalived"),
    (BY_SETTING as u32, "setting"),
    (186, "bgp"),
    (188, "ospf"),
    (196, "cilium"),
];

/// Names of types (`RTN_…`).
const TYPES: [(u32, &str); 8] = [
    (1, "unicast"),
    (2, "local"),
    (3, "broadcast"),
    (5, "multicast"),
    (6, "blackhole"),
    (7, "unreachable"),
    (8, "prohibit"),
    (9, "throw"),
];

/// A route over one next hop.
#[derive(Clone, Debug)]
pub struct Route {
    /// The index of its link; zero if it leads nowhere.
    pub link: u32,
    /// The length of the destination's prefix in bits.
    pub prefix_length: u8,
    spec: RouteStatusSpec,
}

/// A request for all routes.
pub fn request() -> Request {
    Request::new(libc::RTM_GETROUTE, netlink::DUMP, &[0; FIXED])
}

/// Reads a route of the main table, once for each of its next hops. None if the message is another
/// one.
pub fn read(answer: &Answer) -> Vec<Route> {
    read_all(answer).unwrap_or_default()
}

fn read_all(answer: &Answer) -> Option<Vec<Route>> {
    let fixed = answer.payload.get(..FIXED).filter(|_| answer.kind == libc::RTM_NEWROUTE)?;
    let (family, prefix_length) = (Family::of(fixed[0])?, fixed[1]);
    if fixed[4] != libc::RT_TABLE_MAIN {
        return None;
    }
    let mut destination = family.unspecified();
    let (mut link, mut metric, mut gateway, mut source) = (0, 0, None, None);
    let mut hops = &[][..];
    for (kind, value) in attributes(&answer.payload[FIXED..]) {
        match kind {
            libc::RTA_DST => destination = family.address(value)?,
            libc::RTA_OIF => link = u32_at(value, 0)?,
            libc::RTA_PRIORITY => metric = u32_at(value, 0)?,
            libc::RTA_PREFSRC => source = Some(family.address(value)?),
            libc::RTA_MULTIPATH => hops = value,
            _ => gateway = gateway.or(gateway_of(kind, value, family)),
        }
    }
    let text = |address: Option<IpAddr>| address.map_or_else(String::new, |one| one.to_string());
    let spec = RouteStatusSpec {
        destination: format!("{destination}/{prefix_length}"),
        gateway: text(gateway),
        link: String::new(),
        metric,
        protocol: name::of(fixed[5].into(), &PROTOCOLS),
        r#type: name::of(fixed[7].into(), &TYPES),
        family: family.name().to_owned(),
        source: text(source),
    };
    let route = Route { link, prefix_length, spec };
    let hops = next_hops(hops, family).take(MAX_HOPS).map(|(link, gateway)| {
        let spec = RouteStatusSpec { gateway: text(gateway), ..route.spec.clone() };
        Route { link, spec, ..route }
    });
    let routes: Vec<Route> = hops.collect();
    Some(if routes.is_empty() { vec![route] } else { routes })
}

fn gateway_of(kind: u16, value: &[u8], family: Family) -> Option<IpAddr> {
    match kind {
        libc::RTA_GATEWAY => family.address(value),
        VIA => {
            let family = u8::try_from(u16_at(value, 0)?).ok().and_then(Family::of)?;
            family.address(value.get(2..)?)
        }
        _ => None,
    }
}

/// The links and gateways of next hops, up to the first incomplete one.
fn next_hops(mut bytes: &[u8], family: Family) -> impl Iterator<Item = (u32, Option<IpAddr>)> + '_ {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let hop = bytes.get(..length).filter(|_| length >= FIXED_OF_HOP)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let mut found = attributes(&hop[FIXED_OF_HOP..]);
        let gateway = found.find_map(|(kind, value)| gateway_of(kind, value, family));
        Some((u32_at(hop, 4)?, gateway))
    })
}

/// The spec with the name of its link, and its identifier.
pub fn row(route: Route, link: &str) -> (String, RouteStatusSpec) {
    let spec = RouteStatusSpec { link: link.to_owned(), ..route.spec };
    let metric = spec.metric.to_string();
    let parts = [link, &spec.destination, &spec.gateway, &metric];
    let id: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    (id.join("/"), spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_rtnetlink::answers;

    fn route(table: u8, with: impl Fn(Request) -> Request) -> Vec<Route> {
        let fixed = [libc::AF_INET as u8, 8, 0, 0, table, 16, 0, 1, 0, 0, 0, 0];
        let request = Request::new(libc::RTM_NEWROUTE, 0, &fixed)
            .with(libc::RTA_DST, &[10, 0, 0, 0])
            .with(libc::RTA_PRIORITY, &1026_u32.to_ne_bytes());
        let message = with(request).finish(1);
        read(&answers(&message).next().unwrap())
    }

    #[test]
    fn a_route_over_two_gateways_is_two() {
        let hop = |index: u32, gateway: [u8; 4]| {
            let gateway = Request::new(0, 0, &[]).with(libc::RTA_GATEWAY, &gateway).finish(0);
            [&[16, 0, 0, 0], &index.to_ne_bytes()[..], &gateway[16..]].concat()
        };
        let hops = [hop(2, [192, 0, 2, 1]), hop(3, [192, 0, 2, 2])].concat();
        let routes = route(libc::RT_TABLE_MAIN, |one| one.with(libc::RTA_MULTIPATH, &hops));
        let links: Vec<_> = routes.iter().map(|route| route.link).collect();
        assert_eq!(links, [2, 3]);
        let ids = routes.into_iter().map(|route| row(route, "eth0").0);
        let ids: Vec<_> = ids.collect();
        assert_eq!(ids, ["eth0/10.0.0.0/8/192.0.2.1/1026", "eth0/10.0.0.0/8/192.0.2.2/1026"]);
    }

    #[test]
    fn a_gateway_may_be_of_the_other_family() {
        let mut via = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
        via.extend("fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        let routes = route(libc::RT_TABLE_MAIN, |one| one.with(VIA, &via));
        let (id, spec) = row(routes[0].clone(), "eth0");
        assert_eq!((id.as_str(), spec.protocol.as_str()), ("eth0/10.0.0.0/8/fe80::1/1026", "dhcp"));
    }

    #[test]
    fn other_tables_are_left_out() {
        assert!(route(libc::RT_TABLE_LOCAL, |one| one).is_empty());
        let (id, spec) = row(route(libc::RT_TABLE_MAIN, |one| one)[0].clone(), "");
        assert_eq!((id.as_str(), spec.r#type.as_str()), ("10.0.0.0/8/1026", "unicast"));
    }
}
