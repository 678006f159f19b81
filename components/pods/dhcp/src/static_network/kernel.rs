//! Static addresses and routes of the kernel through rtnetlink, and its reports of changes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use osbuild_protocol::{StaticAddress, StaticRoute};

use super::plan::{FoundAddress, FoundRoute};
use crate::netlink::{
    ADDRESS, BY_DHCP, DUPLICATE, EXECUTE, FLAGS, INET, INET6, LIST, Netlink, PROTOCOL, PUT, ROUTE,
};
use osbuild_rtnetlink::{Answer, BY_SETTING, Request, attributes, u32_at};

/// The multicast groups for changed links (`RTMGRP_LINK`), addresses (`RTMGRP_IPV4_IFADDR`,
/// `RTMGRP_IPV6_IFADDR`), routes (`RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`) and rules
/// (`RTMGRP_IPV4_RULE`, and `RTNLGRP_IPV6_RULE`, number 19).
const HEARD: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400 | 0x80 | 1 << 18;
/// The number in the fixed part for tables that have none in a byte (`RT_TABLE_COMPAT`).
const TABLE_ELSEWHERE: u8 = 252;

impl Netlink {
    /// Lists the addresses of all links.
    pub fn all_addresses(&mut self) -> io::Result<Vec<FoundAddress>> {
        self.list(Request::new(libc::RTM_GETADDR, LIST, &[0; ADDRESS]), read_address)
    }

    /// Sets a static address on a link.
    pub fn put_static_address(&mut self, index: u32, address: &StaticAddress) -> io::Result<()> {
        let length = address.prefix_length();
        let request = address_request(libc::RTM_NEWADDR, PUT, index, address.address(), length)
            .with(PROTOCOL, &[BY_SETTING]);
        self.execute(match address.address() {
            IpAddr::V4(address) if length < 31 => {
                let broadcast = address.to_bits() | u32::MAX >> length;
                request.with(libc::IFA_BROADCAST, &broadcast.to_be_bytes())
            }
            _ => request,
        })
    }

    /// Removes an address from a link.
    pub fn delete_found_address(&mut self, address: &FoundAddress) -> io::Result<()> {
        let FoundAddress { index, address, prefix_length, .. } = *address;
        let request = address_request(libc::RTM_DELADDR, EXECUTE, index, address, prefix_length);
        unless_gone(self.execute(request))
    }

    /// Lists the static routes.
    pub fn static_routes(&mut self) -> io::Result<Vec<FoundRoute>> {
        let mut routes = Vec::new();
        for family in [INET, INET6] {
            let mut fixed = [0; ROUTE];
            fixed[0] = family;
            routes.extend(self.list(Request::new(libc::RTM_GETROUTE, LIST, &fixed), read_route)?);
        }
        Ok(routes)
    }

    /// Sets a static route over a link, in place of any other to its subnet with its metric.
    pub fn put_static_route(&mut self, index: u32, route: &StaticRoute) -> io::Result<()> {
        let found = FoundRoute {
            index,
            destination: route.destination().address(),
            prefix_length: route.destination().prefix_length(),
            metric: route.metric().number(),
            table: route.table().number(),
            gateway: route.gateway(),
        };
        self.execute(route_request(libc::RTM_NEWROUTE, PUT, &found))
    }

    /// Removes a route that [`Netlink::static_routes`] returned.
    pub fn delete_static_route(&mut self, route: &FoundRoute) -> io::Result<()> {
        unless_gone(self.execute(route_request(libc::RTM_DELROUTE, EXECUTE, route)))
    }
}

/// Receives changes of links, addresses, routes and rules.
pub struct ChangeMonitor {
    socket: Socket,
}

impl ChangeMonitor {
    /// Opens a monitor, which receives every change from now on.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, HEARD))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Forgets all reports that have arrived, and returns whether there were any. The caller has to
    /// list addresses, routes and rules again, because the kernel may have lost reports.
    pub fn drain(&self) -> bool {
        let mut has_some = false;
        let mut buffer = Vec::with_capacity(1 << 16);
        loop {
            buffer.clear();
            match self.socket.recv_from(&mut buffer, 0) {
                Ok(_) => {}
                // ENOBUFS: the kernel has dropped messages, and reports it once.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return has_some,
            }
            has_some = true;
        }
    }
}

impl AsFd for ChangeMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Turns the error for a missing address, route or rule into success: another program has removed
/// it at the same time.
pub fn unless_gone(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EADDRNOTAVAIL | libc::ESRCH | libc::ENOENT)
            ) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

fn family_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { INET } else { INET6 }
}

pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub fn address_of(octets: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(octets).ok().map(IpAddr::from))
}

fn address_request(kind: u16, flags: i32, index: u32, address: IpAddr, length: u8) -> Request {
    let fixed = [[family_of(address), length, 0, libc::RT_SCOPE_UNIVERSE], index.to_ne_bytes()];
    let octets = octets(address);
    Request::new(kind, flags, &fixed.concat())
        .with(libc::IFA_LOCAL, &octets)
        .with(libc::IFA_ADDRESS, &octets)
}

fn route_request(kind: u16, flags: i32, route: &FoundRoute) -> Request {
    let is_direct = route.gateway.is_none() && route.destination.is_ipv4();
    let scope = if is_direct { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
    let table = u8::try_from(route.table).unwrap_or(TABLE_ELSEWHERE);
    let fixed = [
        [family_of(route.destination), route.prefix_length, 0, 0],
        [table, BY_SETTING, scope, libc::RTN_UNICAST],
        [0; 4],
    ];
    let request = Request::new(kind, flags, &fixed.concat())
        .with(libc::RTA_TABLE, &route.table.to_ne_bytes())
        .with(libc::RTA_OIF, &route.index.to_ne_bytes())
        .with(libc::RTA_PRIORITY, &route.metric.to_ne_bytes())
        .with(libc::RTA_DST, &octets(route.destination));
    match route.gateway {
        Some(gateway) => request.with(libc::RTA_GATEWAY, &octets(gateway)),
        None => request,
    }
}

fn read_address(answer: &Answer) -> Option<FoundAddress> {
    let fixed = answer.payload.get(..ADDRESS).filter(|_| answer.kind == libc::RTM_NEWADDR)?;
    let (mut flags, mut local, mut peer, mut protocol) = (u32::from(fixed[2]), None, None, 0);
    for (kind, value) in attributes(&answer.payload[ADDRESS..]) {
        match kind {
            FLAGS => flags = u32_at(value, 0)?,
            libc::IFA_LOCAL => local = address_of(value),
            libc::IFA_ADDRESS => peer = address_of(value),
            PROTOCOL => protocol = *value.first()?,
            _ => {}
        }
    }
    Some(FoundAddress {
        index: u32_at(fixed, 4)?,
        address: local.or(peer)?,
        prefix_length: fixed[1],
        is_own: protocol == BY_SETTING,
        is_leased: fixed[0] == INET && protocol == BY_DHCP,
        is_duplicate: flags & DUPLICATE != 0,
    })
}

fn read_route(answer: &Answer) -> Option<FoundRoute> {
    let fixed = answer.payload.get(..ROUTE).filter(|_| answer.kind == libc::RTM_NEWROUTE)?;
    if fixed[5] != BY_SETTING {
        return None;
    }
    let unspecified = if fixed[0] == INET { [0; 4].into() } else { [0; 16].into() };
    let (mut destination, mut metric, mut gateway, mut index) = (unspecified, 0, None, None);
    let mut table = u32::from(fixed[4]);
    for (kind, value) in attributes(&answer.payload[ROUTE..]) {
        match kind {
            libc::RTA_DST => destination = address_of(value)?,
            libc::RTA_PRIORITY => metric = u32_at(value, 0)?,
            libc::RTA_TABLE => table = u32_at(value, 0)?,
            libc::RTA_GATEWAY => gateway = Some(address_of(value)?),
            libc::RTA_OIF => index = u32_at(value, 0),
            _ => {}
        }
    }
    let prefix_length = fixed[1];
    Some(FoundRoute { index: index?, destination, prefix_length, metric, table, gateway })
}
