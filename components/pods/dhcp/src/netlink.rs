//! Links, addresses and routes of the kernel through rtnetlink, as far as the client reads and sets
//! them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use osbuild_nftables::Batch;
use osbuild_rtnetlink::{Answer, Request, answers, attributes, u16_at, u32_at};

use crate::dhcpv6::{Need, terms::Leased};
use crate::link_kind::LinkKind;
use crate::message::Mac;
use crate::router::{self, Advert};
use crate::static_network::links::GROUP;
use crate::terms::Route;

/// Bytes of the fixed parts of messages about links, addresses and routes (`ifinfomsg`,
/// `ifaddrmsg`, `rtmsg`).
pub(crate) const LINK: usize = 16;
pub(crate) const ADDRESS: usize = 8;
pub(crate) const ROUTE: usize = 12;
/// The flags of requests that list, that act, and that create or replace.
pub(crate) const LIST: i32 = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
pub(crate) const EXECUTE: i32 = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
pub(crate) const PUT: i32 = EXECUTE | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
/// The address family, as one byte.
pub(crate) const INET: u8 = libc::AF_INET as u8;
pub(crate) const INET6: u8 = libc::AF_INET6 as u8;
/// The protocol of routes from DHCP clients (`RTPROT_DHCP`), with which this client finds its own
/// routes and addresses.
pub(crate) const BY_DHCP: u8 = 16;
/// The gateway is on the link even if its address is outside the subnet (`RTNH_F_ONLINK`).
const ON_LINK: u32 = 4;
/// The multicast groups for changed links (`RTMGRP_LINK`), changed IPv4 addresses and routes
/// (`RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`), changed IPv6 addresses (`RTMGRP_IPV6_IFADDR`) and
/// flags (`RTMGRP_IPV6_IFINFO`), and advertised options for programs (`RTNLGRP_ND_USEROPT`, number
/// 20).
const HEARD: u32 = 1 | 0x10 | 0x40 | 0x100 | 0x800 | 1 << 19;
/// The attribute with the IPv6 flags of a link (`IFLA_INET6_FLAGS`), and the flags of routers that
/// leave addresses or other settings to DHCPv6 (`IF_RA_MANAGED`, `IF_RA_OTHERCONF`).
const IPV6_FLAGS: u16 = 1;
const MANAGED: u32 = 0x40;
const OTHER: u32 = 0x80;
/// The flags of an IPv6 address that the node does not use, or not yet (`IFA_F_TEMPORARY`,
/// `IFA_F_DADFAILED`, `IFA_F_DEPRECATED`, `IFA_F_TENTATIVE`).
const NOT_FOR_USE: u32 = 0x01 | DUPLICATE | 0x20 | 0x40;
/// The flag of an address that another host has (`IFA_F_DADFAILED`).
pub(crate) const DUPLICATE: u32 = 0x08;
/// The attribute with the protocol of an address (`IFA_PROTO`), which not every `libc` defines.
pub(crate) const PROTOCOL: u16 = 11;
/// The flag of an address without a route to its prefix (`IFA_F_NOPREFIXROUTE`).
const NO_PREFIX_ROUTE: u32 = 0x200;
/// The attribute with all flags of an address (`IFA_FLAGS`); the fixed part has only eight.
pub(crate) const FLAGS: u16 = 8;
/// The metric of a route is this plus the index of its link, so that the choice between two default
/// routes is stable.
const METRIC: u32 = 1024;
/// The least MTU with which a link has IPv6 (RFC 8200, 5). The kernel removes the addresses and
/// settings of IPv6 from a link with a smaller one, and gives it those of a new link afterwards.
pub(crate) const IPV6_MIN_MTU: u32 = 1280;
/// The infinite lifetime.
const FOREVER: u32 = u32::MAX;

/// An Ethernet link, or one of WireGuard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index in the kernel.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address: zeros for a link of WireGuard, which has none.
    pub mac: Mac,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// The part of its configuration that its routers leave to DHCPv6.
    pub dhcpv6: Need,
    /// Whether it is a device, or which kind of software link.
    pub kind: LinkKind,
    /// The index of the link of which it is a port.
    pub master: Option<u32>,
    /// The index of the link that carries it.
    pub parent: Option<u32>,
    /// Whether this program has made it.
    pub is_made: bool,
}

impl Link {
    /// Whether the link has IPv6 again, which its MTU at an earlier look did not permit.
    pub fn regains_ipv6(&self, before: &Self) -> bool {
        before.mtu < IPV6_MIN_MTU && self.mtu >= IPV6_MIN_MTU
    }
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: Ipv4Addr,
    /// The length of its subnet's prefix in bits.
    pub prefix_length: u8,
    /// Whether a client of DHCP has set it, this one or one before. A new release comes with a new
    /// boot, so no address is left of a release that did not mark its own.
    pub is_leased: bool,
}

impl Address {
    /// Whether it is the same address of the same subnet, for any time.
    pub fn is(&self, other: &Self) -> bool {
        (self.address, self.prefix_length) == (other.address, other.prefix_length)
    }
}

/// An IPv4 route of the main table with the metric that the leases of a link have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MainRoute {
    /// The route.
    pub route: Route,
    /// Whether a client of DHCP has set it, over this link. Another one may lead over any link: the
    /// kernel has one route to a subnet with a metric.
    pub is_leased: bool,
}

/// An IPv6 address of a link that is not link-local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address6 {
    /// The address.
    pub address: Ipv6Addr,
    /// The length of its prefix in bits.
    pub prefix_length: u8,
    /// The kernel's flags (`IFA_F_…`).
    flags: u32,
    /// The program that has set it.
    protocol: u8,
}

impl Address6 {
    /// Whether other hosts can reach the node at it: it is neither temporary nor deprecated, and no
    /// other host has it.
    pub fn is_usable(&self) -> bool {
        self.flags & NOT_FOR_USE == 0
    }

    /// Whether another host on the link has it.
    pub fn is_duplicate(&self) -> bool {
        self.flags & DUPLICATE != 0
    }

    /// Whether a client of DHCPv6 has set it, this one or one before.
    pub fn is_leased(&self) -> bool {
        self.prefix_length == 128 && self.protocol == BY_DHCP
    }
}

/// A connection to the kernel. Every call waits for its answer, which the kernel sends at once.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a connection about links, addresses and routes.
    pub fn open() -> io::Result<Self> {
        Self::open_for(NETLINK_ROUTE)
    }

    /// Opens a connection for a protocol of netlink.
    pub(crate) fn open_for(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Lists the names of all links, each with the link if it is one of Ethernet or of WireGuard.
    pub fn named_links(&mut self) -> io::Result<Vec<(String, Option<Link>)>> {
        let request = Request::new(libc::RTM_GETLINK, LIST, &[0; LINK]);
        self.list(request, |answer| Some((read_name(answer)?, read_link(answer))))
    }

    /// Lists all links of Ethernet and of WireGuard.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        self.list(Request::new(libc::RTM_GETLINK, LIST, &[0; LINK]), read_link)
    }

    /// Switches a link on.
    pub fn switch_on(&mut self, index: u32) -> io::Result<()> {
        self.switch(index, libc::IFF_UP as u32)
    }

    /// Switches a link off. The kernel removes its routes and its IPv6 addresses.
    pub fn switch_off(&mut self, index: u32) -> io::Result<()> {
        self.switch(index, 0)
    }

    fn switch(&mut self, index: u32, flags: u32) -> io::Result<()> {
        let (flags, changed) = (flags.to_ne_bytes(), (libc::IFF_UP as u32).to_ne_bytes());
        let fixed = [[0; 4], index.to_ne_bytes(), flags, changed].concat();
        self.execute(Request::new(libc::RTM_NEWLINK, EXECUTE, &fixed))
    }

    /// Sets the MTU of a link in bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        let request = Request::new(
            libc::RTM_NEWLINK,
            EXECUTE,
            &[[0; 4], index.to_ne_bytes(), [0; 4], [0; 4]].concat(),
        );
        self.execute(request.with(libc::IFLA_MTU, &mtu.to_ne_bytes()))
    }

    /// Lists the IPv4 addresses of a link.
    pub fn addresses(&mut self, index: u32) -> io::Result<Vec<Address>> {
        let mut fixed = [0; ADDRESS];
        fixed[0] = INET;
        let request = Request::new(libc::RTM_GETADDR, LIST, &fixed);
        self.list(request, |answer| read_address(answer, index))
    }

    /// Lists the IPv6 addresses of a link that are not link-local.
    pub fn addresses6(&mut self, index: u32) -> io::Result<Vec<Address6>> {
        let mut fixed = [0; ADDRESS];
        fixed[0] = INET6;
        let request = Request::new(libc::RTM_GETADDR, LIST, &fixed);
        self.list(request, |answer| read_address6(answer, index))
    }

    /// Sets an address of DHCP on a link, which the kernel removes at the end of its lifetime; or
    /// renews the lifetime of an existing one.
    pub fn put_address(
        &mut self,
        index: u32,
        address: &Address,
        lifetime: Option<Duration>,
    ) -> io::Result<()> {
        let seconds = whole_seconds(lifetime);
        // Preferred and valid lifetime; the kernel fills in the two timestamps of `ifa_cacheinfo`.
        let lifetimes = [seconds, seconds, 0, 0].map(u32::to_ne_bytes).concat();
        let request = address_request(libc::RTM_NEWADDR, PUT, index, address)
            .with(libc::IFA_CACHEINFO, &lifetimes)
            .with(PROTOCOL, &[BY_DHCP]);
        let host_bits = u32::MAX.checked_shr(address.prefix_length.into()).unwrap_or(0);
        let broadcast = (u32::from(address.address) | host_bits).to_be_bytes();
        // A subnet of one or two addresses has no broadcast address (RFC 3021).
        self.execute(if address.prefix_length < 31 {
            request.with(libc::IFA_BROADCAST, &broadcast)
        } else {
            request
        })
    }

    /// Removes an address from a link, with all routes from it.
    pub fn delete_address(&mut self, index: u32, address: &Address) -> io::Result<()> {
        self.execute(address_request(libc::RTM_DELADDR, EXECUTE, index, address))
    }

    /// Sets an address of DHCPv6 on a link, or renews its lifetimes. Routers alone announce
    /// prefixes and routes.
    pub fn put_address6(&mut self, index: u32, leased: &Leased) -> io::Result<()> {
        // An address that is deprecated already has no time in which it is preferred.
        let preferred = match leased.preferred {
            Some(Duration::ZERO) => 0,
            left => whole_seconds(left),
        };
        let valid = whole_seconds(leased.valid);
        let lifetimes = [preferred, valid, 0, 0].map(u32::to_ne_bytes).concat();
        let request = address6_request(libc::RTM_NEWADDR, PUT, index, leased.address)
            .with(libc::IFA_CACHEINFO, &lifetimes)
            .with(FLAGS, &NO_PREFIX_ROUTE.to_ne_bytes())
            .with(PROTOCOL, &[BY_DHCP]);
        self.execute(request)
    }

    /// Removes an address of DHCPv6 from a link.
    pub fn delete_address6(&mut self, index: u32, address: Ipv6Addr) -> io::Result<()> {
        self.execute(address6_request(libc::RTM_DELADDR, EXECUTE, index, address))
    }

    /// Lists the IPv4 routes with the metric that the leases of a link have.
    pub fn routes(&mut self, index: u32) -> io::Result<Vec<MainRoute>> {
        let mut fixed = [0; ROUTE];
        fixed[0] = INET;
        let request = Request::new(libc::RTM_GETROUTE, LIST, &fixed);
        self.list(request, |answer| read_route(answer, index))
    }

    /// Adds a route over a link for packets from `source`, an address of the link. With `on_link`,
    /// the gateway is on the link even if its address is outside the subnet.
    pub fn put_route(
        &mut self,
        index: u32,
        route: &Route,
        source: Ipv4Addr,
        on_link: bool,
    ) -> io::Result<()> {
        let flags = if on_link && route.gateway.is_some() { ON_LINK } else { 0 };
        let request = route_request(libc::RTM_NEWROUTE, PUT, index, route, flags);
        self.execute(request.with(libc::RTA_PREFSRC, &source.octets()))
    }

    /// Removes a leased route that [`Netlink::routes`] returned.
    pub fn delete_route(&mut self, index: u32, route: &Route) -> io::Result<()> {
        self.execute(route_request(libc::RTM_DELROUTE, EXECUTE, index, route, 0))
    }

    pub(crate) fn execute(&mut self, request: Request) -> io::Result<()> {
        self.list(request, |_| None::<()>).map(drop)
    }

    /// Has the kernel carry out a batch.
    pub(crate) fn carry_out(&mut self, batch: Batch) -> io::Result<()> {
        let first = self.sequence.wrapping_add(1);
        let (bytes, last) = batch.finish(first);
        // The end of the batch has the number after it.
        self.sequence = last.wrapping_add(1);
        self.socket.send(&bytes, 0)?;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for answer in answers(&bytes).filter(|one| (first..=last).contains(&one.sequence)) {
                match (answer.kind == libc::NLMSG_ERROR as u16, u32_at(answer.payload, 0)) {
                    (true, Some(0)) if answer.sequence == last => return Ok(()),
                    (true, Some(number)) if number != 0 => return Err(kernel_error(number)),
                    _ => {}
                }
            }
        }
    }

    /// Sends a request and collects the readable answers, up to the end marker.
    pub(crate) fn list<T>(
        &mut self,
        request: Request,
        read: impl Fn(&Answer) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        const DONE: u16 = libc::NLMSG_DONE as u16;
        const ERROR: u16 = libc::NLMSG_ERROR as u16;
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&request.finish(self.sequence), 0)?;
        let mut list = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for answer in answers(&bytes).filter(|answer| answer.sequence == self.sequence) {
                match (answer.kind, u32_at(answer.payload, 0)) {
                    (DONE, _) | (ERROR, None | Some(0)) => return Ok(list),
                    (ERROR, Some(number)) => return Err(kernel_error(number)),
                    _ => list.extend(read(&answer)),
                }
            }
        }
    }
}

/// The kernel's error numbers are negative.
fn kernel_error(number: u32) -> io::Error {
    io::Error::from_raw_os_error(number.cast_signed().wrapping_neg())
}

/// The contents of messages, each with the index of its link.
#[derive(Debug, Default)]
pub struct Heard {
    /// The options that routers have advertised.
    pub adverts: Vec<(u32, Vec<Advert>)>,
    /// The addresses that the kernel has removed, as another host has them.
    pub duplicates: Vec<(u32, Ipv6Addr)>,
}

/// Receives changes of links, addresses and IPv4 routes, and advertised options.
pub struct LinkMonitor {
    socket: Socket,
}

impl LinkMonitor {
    /// Opens a monitor, which receives every change from now on.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, HEARD))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Reads all messages. Those that it does not return only mean that links, addresses and routes
    /// have to be listed again, because some may be lost.
    pub fn read(&self) -> Heard {
        let mut buffer = Vec::with_capacity(1 << 16);
        let mut heard = Heard::default();
        loop {
            buffer.clear();
            match self.socket.recv_from(&mut buffer, 0) {
                // Other programs can send to this socket; the kernel's port number is 0.
                Ok((_, sender)) if sender.port_number() == 0 => {
                    for answer in answers(&buffer) {
                        match answer.kind {
                            router::NEW_OPTIONS => {
                                heard.adverts.extend(router::read(answer.payload))
                            }
                            libc::RTM_DELADDR => heard.duplicates.extend(read_duplicate(&answer)),
                            _ => {}
                        }
                    }
                }
                Ok(_) => {}
                // ENOBUFS: the kernel has dropped messages, and reports it once.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return heard,
            }
        }
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn read_name(answer: &Answer) -> Option<String> {
    let rest = answer.payload.get(LINK..).filter(|_| answer.kind == libc::RTM_NEWLINK)?;
    let (_, name) = attributes(rest).find(|(kind, _)| *kind == libc::IFLA_IFNAME)?;
    Some(text(name))
}

/// A text of the kernel, which ends with a zero.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}

fn read_link(answer: &Answer) -> Option<Link> {
    let fixed = answer.payload.get(..LINK).filter(|_| answer.kind == libc::RTM_NEWLINK)?;
    let (kind, index, flags) = (u16_at(fixed, 2)?, u32_at(fixed, 4)?, u32_at(fixed, 8)?);
    let has = |flag: i32| flags & flag as u32 != 0;
    if has(libc::IFF_LOOPBACK) {
        return None;
    }
    let (mut name, mut mac, mut mtu, mut dhcpv6) = (None, None, None, Need::Nothing);
    let (mut link_kind, mut master, mut parent, mut group) = (LinkKind::Device, None, None, 0);
    for (kind, value) in attributes(&answer.payload[LINK..]) {
        match kind {
            libc::IFLA_IFNAME => name = Some(text(value)),
            libc::IFLA_ADDRESS => mac = Mac::try_from(value).ok(),
            libc::IFLA_MTU => mtu = u32_at(value, 0),
            libc::IFLA_MASTER => master = u32_at(value, 0),
            libc::IFLA_LINK => parent = u32_at(value, 0),
            libc::IFLA_GROUP => group = u32_at(value, 0)?,
            libc::IFLA_LINKINFO => link_kind = LinkKind::read(value),
            libc::IFLA_AF_SPEC => {
                dhcpv6 = match ipv6_flags(value).unwrap_or(0) {
                    flags if flags & MANAGED != 0 => Need::Addresses,
                    flags if flags & OTHER != 0 => Need::Options,
                    _ => Need::Nothing,
                }
            }
            _ => {}
        }
    }
    let mac = match (kind, &link_kind) {
        (libc::ARPHRD_ETHER, _) => mac?,
        (libc::ARPHRD_NONE, LinkKind::WireGuard) => Mac::default(),
        _ => return None,
    };
    Some(Link {
        index,
        name: name?,
        mac,
        mtu: mtu?,
        up: has(libc::IFF_UP),
        carrier: has(libc::IFF_UP) && has(libc::IFF_RUNNING),
        dhcpv6,
        is_made: group == GROUP && link_kind.can_be_made(),
        kind: link_kind,
        master,
        parent,
    })
}

/// The IPv6 flags (`IFLA_INET6_FLAGS`) among the attributes of each family.
fn ipv6_flags(families: &[u8]) -> Option<u32> {
    let (_, ours) = attributes(families).find(|(family, _)| *family == u16::from(INET6))?;
    let (_, flags) = attributes(ours).find(|(kind, _)| *kind == IPV6_FLAGS)?;
    u32_at(flags, 0)
}

fn address_request(kind: u16, flags: i32, index: u32, address: &Address) -> Request {
    let fixed =
        [[INET, address.prefix_length, 0, libc::RT_SCOPE_UNIVERSE], index.to_ne_bytes()].concat();
    let octets = address.address.octets();
    // The local address and that of the peer, which are equal except on a point-to-point link.
    Request::new(kind, flags, &fixed)
        .with(libc::IFA_LOCAL, &octets)
        .with(libc::IFA_ADDRESS, &octets)
}

/// A lifetime as the kernel counts it. It is rounded up, because the kernel refuses zero.
fn whole_seconds(left: Option<Duration>) -> u32 {
    left.map_or(FOREVER, |left| left.as_secs().saturating_add(1).min(u64::from(FOREVER) - 1) as u32)
}

fn address6_request(kind: u16, flags: i32, index: u32, address: Ipv6Addr) -> Request {
    let fixed = [[INET6, 128, 0, libc::RT_SCOPE_UNIVERSE], index.to_ne_bytes()].concat();
    Request::new(kind, flags, &fixed).with(libc::IFA_LOCAL, &address.octets())
}

fn route_request(kind: u16, flags: i32, index: u32, route: &Route, route_flags: u32) -> Request {
    let scope = if route.gateway.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
    let mut fixed = vec![
        INET,
        route.prefix_length,
        0,
        0,
        libc::RT_TABLE_MAIN,
        BY_DHCP,
        scope,
        libc::RTN_UNICAST,
    ];
    fixed.extend(route_flags.to_ne_bytes());
    let request = Request::new(kind, flags, &fixed)
        .with(libc::RTA_OIF, &index.to_ne_bytes())
        .with(libc::RTA_PRIORITY, &(METRIC + index).to_ne_bytes())
        .with(libc::RTA_DST, &route.destination.octets());
    match route.gateway {
        Some(gateway) => request.with(libc::RTA_GATEWAY, &gateway.octets()),
        None => request,
    }
}

fn read_address(answer: &Answer, index: u32) -> Option<Address> {
    let fixed = answer.payload.get(..ADDRESS).filter(|_| answer.kind == libc::RTM_NEWADDR)?;
    if u32_at(fixed, 4)? != index {
        return None;
    }
    let (mut local, mut is_leased) = (None, false);
    for (kind, value) in attributes(&answer.payload[ADDRESS..]) {
        match kind {
            libc::IFA_LOCAL => local = address_of(value),
            PROTOCOL => is_leased = value == [BY_DHCP],
            _ => {}
        }
    }
    Some(Address { address: local?, prefix_length: fixed[1], is_leased })
}

fn read_address6(answer: &Answer, index: u32) -> Option<Address6> {
    let (found, address) = any_address6(answer).filter(|_| answer.kind == libc::RTM_NEWADDR)?;
    (found == index).then_some(address)
}

/// An address that is removed, as another host has it.
fn read_duplicate(answer: &Answer) -> Option<(u32, Ipv6Addr)> {
    let (index, address) = any_address6(answer)?;
    address.is_duplicate().then_some((index, address.address))
}

/// Reads a message about an IPv6 address that is not link-local, with the index of its link.
fn any_address6(answer: &Answer) -> Option<(u32, Address6)> {
    let fixed = answer.payload.get(..ADDRESS)?;
    if fixed[0] != INET6 || fixed[3] >= libc::RT_SCOPE_LINK {
        return None;
    }
    let (mut flags, mut address, mut protocol) = (u32::from(fixed[2]), None, 0);
    for (kind, value) in attributes(&answer.payload[ADDRESS..]) {
        match kind {
            FLAGS => flags = u32_at(value, 0)?,
            PROTOCOL => protocol = *value.first()?,
            // On a point-to-point link, one is the node's and the other the peer's.
            libc::IFA_LOCAL => address = <[u8; 16]>::try_from(value).ok(),
            libc::IFA_ADDRESS => address = address.or(<[u8; 16]>::try_from(value).ok()),
            _ => {}
        }
    }
    let (index, address) = (u32_at(fixed, 4)?, address?.into());
    Some((index, Address6 { address, prefix_length: fixed[1], flags, protocol }))
}

fn read_route(answer: &Answer, index: u32) -> Option<MainRoute> {
    let fixed = answer.payload.get(..ROUTE).filter(|_| answer.kind == libc::RTM_NEWROUTE)?;
    // One for a type of service is beside a lease's route, which is for all packets.
    if (fixed[3], fixed[4]) != (0, libc::RT_TABLE_MAIN) {
        return None;
    }
    let mut route =
        Route { destination: Ipv4Addr::UNSPECIFIED, prefix_length: fixed[1], gateway: None };
    let (mut over, mut metric) = (None, 0);
    for (kind, value) in attributes(&answer.payload[ROUTE..]) {
        match kind {
            libc::RTA_OIF => over = u32_at(value, 0),
            libc::RTA_PRIORITY => metric = u32_at(value, 0)?,
            libc::RTA_DST => route.destination = address_of(value)?,
            libc::RTA_GATEWAY => route.gateway = Some(address_of(value)?),
            _ => {}
        }
    }
    let is_leased = fixed[5] == BY_DHCP && over == Some(index);
    (metric == METRIC + index).then_some(MainRoute { route, is_leased })
}

fn address_of(octets: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(octets).ok().map(Ipv4Addr::from)
}
