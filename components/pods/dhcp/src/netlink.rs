//! The kernel's view of links, addresses and routes (rtnetlink): what the client has to see of it
//! and what it sets.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::message::Mac;
use crate::router::{self, Advert};
use crate::rtnetlink::{Answer, Request, answers, attributes, u16_at, u32_at};
use crate::terms::Route;

/// The lengths of the fixed parts of messages about links, addresses and routes (`ifinfomsg`,
/// `ifaddrmsg`, `rtmsg`).
const LINK: usize = 16;
const ADDRESS: usize = 8;
const ROUTE: usize = 12;
/// The flags of a request to list things, to do one, and to put one in place whether it is there or
/// not.
const LIST: i32 = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
const TELL: i32 = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
const PUT: i32 = TELL | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
/// The address family, as one byte.
const INET: u8 = libc::AF_INET as u8;
const INET6: u8 = libc::AF_INET6 as u8;
/// The routes that a DHCP client has set (`RTPROT_DHCP`), so that it finds them again.
const BY_DHCP: u8 = 16;
/// The gateway is on the link, whatever the address says (`RTNH_F_ONLINK`).
const ON_LINK: u32 = 4;
/// The multicast groups that hear of changed links (`RTMGRP_LINK`), of changed IPv6 addresses
/// (`RTMGRP_IPV6_IFADDR`) and flags (`RTMGRP_IPV6_IFINFO`), and of what routers advertise to
/// programs (`RTNLGRP_ND_USEROPT`, the twentieth).
const HEARD: u32 = 1 | 0x100 | 0x800 | 1 << 19;
/// The attribute with the flags of a link's IPv6 (`IFLA_INET6_FLAGS`), and those that routers set
/// who leave addresses or something else to DHCPv6 (`IF_RA_MANAGED`, `IF_RA_OTHERCONF`).
const IPV6_FLAGS: u16 = 1;
const DHCPV6: u32 = 0x40 | 0x80;
/// The flags of an IPv6 address that is not one of the node, or not yet (`IFA_F_TEMPORARY`,
/// `IFA_F_DADFAILED`, `IFA_F_DEPRECATED`, `IFA_F_TENTATIVE`).
const NOT_FOR_USE: u32 = 0x01 | 0x08 | 0x20 | 0x40;
/// The attribute with all flags of an address, of which the fixed part has only eight
/// (`IFA_FLAGS`).
const FLAGS: u16 = 8;
/// The metric of a route is this and its link's index: of two links with a default route, it is
/// always the same one that is used.
const METRIC: u32 = 1024;
/// The lifetime that never ends.
const FOR_EVER: u32 = u32::MAX;

/// An Ethernet link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number for it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: Mac,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it can carry frames.
    pub carrier: bool,
    /// Whether a router has said on it that there is more to know by DHCPv6.
    pub dhcpv6: bool,
    /// Whether it is a device, and neither made by software (bridge, veth, VLAN …) nor a port of
    /// such a link.
    pub device: bool,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: Ipv4Addr,
    /// How many bits of it name the subnet.
    pub prefix_length: u8,
    /// Whether it stays until somebody takes it away. An address of ours never does, unless its
    /// lease is for ever.
    pub permanent: bool,
}

/// A connection to the kernel. Every call waits for its answer, which the kernel gives at once.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens one.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// All Ethernet links.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        self.list(Request::new(libc::RTM_GETLINK, LIST, &[0; LINK]), read_link)
    }

    /// Switches a link on.
    pub fn switch_on(&mut self, index: u32) -> io::Result<()> {
        let up = (libc::IFF_UP as u32).to_ne_bytes();
        self.tell(Request::new(
            libc::RTM_NEWLINK,
            TELL,
            &[[0; 4], index.to_ne_bytes(), up, up].concat(),
        ))
    }

    /// Sets the MTU of a link, in bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u16) -> io::Result<()> {
        let request = Request::new(
            libc::RTM_NEWLINK,
            TELL,
            &[[0; 4], index.to_ne_bytes(), [0; 4], [0; 4]].concat(),
        );
        self.tell(request.with(libc::IFLA_MTU, &u32::from(mtu).to_ne_bytes()))
    }

    /// The IPv4 addresses of a link.
    pub fn addresses(&mut self, index: u32) -> io::Result<Vec<Address>> {
        let mut fixed = [0; ADDRESS];
        fixed[0] = INET;
        let request = Request::new(libc::RTM_GETADDR, LIST, &fixed);
        self.list(request, |answer| read_address(answer, index))
    }

    /// The IPv6 addresses of a link, with their prefix lengths, that others can reach the node by:
    /// none that is link-local, still being checked for a duplicate, or about to go.
    pub fn addresses6(&mut self, index: u32) -> io::Result<Vec<(Ipv6Addr, u8)>> {
        let mut fixed = [0; ADDRESS];
        fixed[0] = INET6;
        let request = Request::new(libc::RTM_GETADDR, LIST, &fixed);
        self.list(request, |answer| read_address6(answer, index))
    }

    /// Gives a link an address, which the kernel takes away when the lifetime is over; or a new
    /// lifetime to one that it has.
    pub fn put_address(
        &mut self,
        index: u32,
        address: &Address,
        lifetime: Option<Duration>,
    ) -> io::Result<()> {
        // The kernel counts whole seconds; rounded up, as zero would be refused.
        let seconds = lifetime.map_or(FOR_EVER, |left| {
            left.as_secs().saturating_add(1).min(u64::from(FOR_EVER) - 1) as u32
        });
        // Preferred and valid; the two time stamps of `ifa_cacheinfo` are the kernel's to fill in.
        let lifetimes = [seconds, seconds, 0, 0].map(u32::to_ne_bytes).concat();
        let request = address_request(libc::RTM_NEWADDR, PUT, index, address)
            .with(libc::IFA_CACHEINFO, &lifetimes);
        let host_bits = u32::MAX.checked_shr(address.prefix_length.into()).unwrap_or(0);
        let broadcast = (u32::from(address.address) | host_bits).to_be_bytes();
        // A subnet of two addresses or one has none for everybody (RFC 3021).
        self.tell(if address.prefix_length < 31 {
            request.with(libc::IFA_BROADCAST, &broadcast)
        } else {
            request
        })
    }

    /// Takes an address off a link, and with it all routes that come from it.
    pub fn delete_address(&mut self, index: u32, address: &Address) -> io::Result<()> {
        self.tell(address_request(libc::RTM_DELADDR, TELL, index, address))
    }

    /// The IPv4 routes over a link that came from DHCP.
    pub fn routes(&mut self, index: u32) -> io::Result<Vec<Route>> {
        let mut fixed = [0; ROUTE];
        fixed[0] = INET;
        let request = Request::new(libc::RTM_GETROUTE, LIST, &fixed);
        self.list(request, |answer| read_route(answer, index))
    }

    /// Adds a route over a link for packets from `source`, an address of the link. `on_link` says
    /// that the gateway is on the link even if the address does not say so.
    pub fn put_route(
        &mut self,
        index: u32,
        route: &Route,
        source: Ipv4Addr,
        on_link: bool,
    ) -> io::Result<()> {
        let flags = if on_link && route.gateway.is_some() { ON_LINK } else { 0 };
        let request = route_request(libc::RTM_NEWROUTE, PUT, index, route, flags);
        self.tell(request.with(libc::RTA_PREFSRC, &source.octets()))
    }

    /// Takes away a route that [`Netlink::routes`] has listed.
    pub fn delete_route(&mut self, index: u32, route: &Route) -> io::Result<()> {
        self.tell(route_request(libc::RTM_DELROUTE, TELL, index, route, 0))
    }

    fn tell(&mut self, request: Request) -> io::Result<()> {
        self.list(request, |_| None::<()>).map(drop)
    }

    /// Sends a request and collects what can be read of the answers, up to the one that says that
    /// there are no more.
    fn list<T>(
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
                    // The kernel's error numbers are negative.
                    (ERROR, Some(number)) => {
                        return Err(io::Error::from_raw_os_error((number as i32).wrapping_neg()));
                    }
                    _ => list.extend(read(&answer)),
                }
            }
        }
    }
}

/// Hears when a link comes, goes or changes, when an IPv6 address does, and what routers advertise.
pub struct LinkMonitor {
    socket: Socket,
}

impl LinkMonitor {
    /// Opens one: it hears of every change from now on.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, HEARD))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Reads all that it has heard, and returns what routers advertised, each with the index of its
    /// link. What else it was does not matter, and some of it may be lost anyway: links and
    /// addresses have to be listed again.
    pub fn read(&self) -> Vec<(u32, Vec<Advert>)> {
        let mut buffer = Vec::with_capacity(1 << 16);
        let mut adverts = Vec::new();
        loop {
            buffer.clear();
            match self.socket.recv_from(&mut buffer, 0) {
                // Other programs can send to this socket, too; the kernel's number is 0.
                Ok((_, sender)) if sender.port_number() == 0 => {
                    let options =
                        answers(&buffer).filter(|answer| answer.kind == router::NEW_OPTIONS);
                    adverts.extend(options.filter_map(|answer| router::read(answer.payload)));
                }
                Ok(_) => {}
                // ENOBUFS: the kernel has dropped some, and says so once.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return adverts,
            }
        }
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn read_link(answer: &Answer) -> Option<Link> {
    let fixed = answer.payload.get(..LINK).filter(|_| answer.kind == libc::RTM_NEWLINK)?;
    let (kind, index, flags) = (u16_at(fixed, 2)?, u32_at(fixed, 4)?, u32_at(fixed, 8)?);
    let has = |flag: i32| flags & flag as u32 != 0;
    if kind != libc::ARPHRD_ETHER || has(libc::IFF_LOOPBACK) {
        return None;
    }
    let (mut name, mut mac, mut device, mut dhcpv6) = (None, None, true, false);
    for (kind, value) in attributes(&answer.payload[LINK..]) {
        match kind {
            libc::IFLA_IFNAME => {
                name = Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned())
            }
            libc::IFLA_ADDRESS => mac = Mac::try_from(value).ok(),
            libc::IFLA_MASTER => device = false,
            libc::IFLA_AF_SPEC => {
                dhcpv6 = ipv6_flags(value).is_some_and(|flags| flags & DHCPV6 != 0)
            }
            libc::IFLA_LINKINFO => {
                device &= attributes(value).all(|(kind, _)| kind != libc::IFLA_INFO_KIND)
            }
            _ => {}
        }
    }
    let (up, carrier) = (has(libc::IFF_UP), has(libc::IFF_UP) && has(libc::IFF_RUNNING));
    Some(Link { index, name: name?, mac: mac?, up, carrier, dhcpv6, device })
}

/// The flags of IPv6 (`IFLA_INET6_FLAGS`) among what each family says of a link.
fn ipv6_flags(families: &[u8]) -> Option<u32> {
    let (_, ours) = attributes(families).find(|(family, _)| *family == u16::from(INET6))?;
    let (_, flags) = attributes(ours).find(|(kind, _)| *kind == IPV6_FLAGS)?;
    u32_at(flags, 0)
}

fn address_request(kind: u16, flags: i32, index: u32, address: &Address) -> Request {
    let fixed =
        [[INET, address.prefix_length, 0, libc::RT_SCOPE_UNIVERSE], index.to_ne_bytes()].concat();
    let octets = address.address.octets();
    // The local address and that of the other end, which are the same where there are many other
    // ends.
    Request::new(kind, flags, &fixed)
        .with(libc::IFA_LOCAL, &octets)
        .with(libc::IFA_ADDRESS, &octets)
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
    let (_, local) =
        attributes(&answer.payload[ADDRESS..]).find(|(kind, _)| *kind == libc::IFA_LOCAL)?;
    let permanent = u32::from(fixed[2]) & libc::IFA_F_PERMANENT != 0;
    Some(Address { address: address_of(local)?, prefix_length: fixed[1], permanent })
}

fn read_address6(answer: &Answer, index: u32) -> Option<(Ipv6Addr, u8)> {
    let fixed = answer.payload.get(..ADDRESS).filter(|_| answer.kind == libc::RTM_NEWADDR)?;
    if fixed[0] != INET6 || u32_at(fixed, 4)? != index || fixed[3] >= libc::RT_SCOPE_LINK {
        return None;
    }
    let (mut flags, mut address) = (u32::from(fixed[2]), None);
    for (kind, value) in attributes(&answer.payload[ADDRESS..]) {
        match kind {
            FLAGS => flags = u32_at(value, 0)?,
            // Of a link with another end, the one is the node's and the other is not.
            libc::IFA_LOCAL => address = <[u8; 16]>::try_from(value).ok(),
            libc::IFA_ADDRESS => address = address.or(<[u8; 16]>::try_from(value).ok()),
            _ => {}
        }
    }
    (flags & NOT_FOR_USE == 0).then_some((address?.into(), fixed[1]))
}

fn read_route(answer: &Answer, index: u32) -> Option<Route> {
    let fixed = answer.payload.get(..ROUTE).filter(|_| answer.kind == libc::RTM_NEWROUTE)?;
    if (fixed[4], fixed[5]) != (libc::RT_TABLE_MAIN, BY_DHCP) {
        return None;
    }
    let mut route =
        Route { destination: Ipv4Addr::UNSPECIFIED, prefix_length: fixed[1], gateway: None };
    let mut over = None;
    for (kind, value) in attributes(&answer.payload[ROUTE..]) {
        match kind {
            libc::RTA_OIF => over = u32_at(value, 0),
            libc::RTA_DST => route.destination = address_of(value)?,
            libc::RTA_GATEWAY => route.gateway = Some(address_of(value)?),
            _ => {}
        }
    }
    (over == Some(index)).then_some(route)
}

fn address_of(octets: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(octets).ok().map(Ipv4Addr::from)
}
