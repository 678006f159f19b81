//! The kernel's view of links, addresses and routes (rtnetlink): what the client has to see of it and what it sets.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, CacheInfo};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::message::Mac;
use crate::terms::Route;

/// The multicast group that hears of changed links (`RTMGRP_LINK`).
const LINKS: u32 = 1;
/// The metric of a route is this and its link's index: of two links with a default route, it is always the same one that is used.
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
    /// Whether it is a device, and neither made by software (bridge, veth, VLAN …) nor a port of such a link.
    pub device: bool,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: Ipv4Addr,
    /// How many bits of it name the subnet.
    pub prefix_length: u8,
    /// Whether it stays until somebody takes it away. An address of ours never does, unless its lease is for ever.
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
        let answers = self.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        Ok(answers.into_iter().filter_map(read_link).collect())
    }

    /// Switches a link on.
    pub fn switch_on(&mut self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.tell(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets the MTU of a link, in bytes.
    pub fn set_mtu(&mut self, index: u32, mtu: u16) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::Mtu(mtu.into()));
        self.tell(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// The IPv4 addresses of a link.
    pub fn addresses(&mut self, index: u32) -> io::Result<Vec<Address>> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        let answers = self.ask(RouteNetlinkMessage::GetAddress(message), NLM_F_DUMP)?;
        Ok(answers.into_iter().filter_map(|answer| read_address(answer, index)).collect())
    }

    /// Gives a link an address, which the kernel takes away when the lifetime is over; or a new lifetime to one that it has.
    pub fn put_address(&mut self, index: u32, address: &Address, lifetime: Option<Duration>) -> io::Result<()> {
        // The kernel counts whole seconds; rounded up, as zero would be refused.
        let seconds = lifetime.map_or(FOR_EVER, |left| left.as_secs().saturating_add(1).min(u64::from(FOR_EVER) - 1) as u32);
        let mut lifetimes = CacheInfo::default();
        (lifetimes.ifa_valid, lifetimes.ifa_preferred) = (seconds, seconds);
        let mut message = address_message(index, address);
        message.attributes.push(AddressAttribute::CacheInfo(lifetimes));
        let host_bits = u32::MAX.checked_shr(address.prefix_length.into()).unwrap_or(0);
        if address.prefix_length < 31 {
            let broadcast = Ipv4Addr::from(u32::from(address.address) | host_bits);
            message.attributes.push(AddressAttribute::Broadcast(broadcast));
        }
        self.tell(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Takes an address off a link, and with it all routes that come from it.
    pub fn delete_address(&mut self, index: u32, address: &Address) -> io::Result<()> {
        self.tell(RouteNetlinkMessage::DelAddress(address_message(index, address)), 0)
    }

    /// The IPv4 routes over a link that came from DHCP.
    pub fn routes(&mut self, index: u32) -> io::Result<Vec<Route>> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        let answers = self.ask(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        Ok(answers.into_iter().filter_map(|answer| read_route(answer, index)).collect())
    }

    /// Adds a route over a link for packets from `source`, an address of the link. `on_link` says that the gateway is on the link
    /// even if the address does not say so.
    pub fn put_route(&mut self, index: u32, route: &Route, source: Ipv4Addr, on_link: bool) -> io::Result<()> {
        let mut message = route_message(index, route);
        message.attributes.push(RouteAttribute::PrefSource(RouteAddress::Inet(source)));
        if on_link && route.gateway.is_some() {
            message.header.flags = RouteFlags::Onlink;
        }
        self.tell(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Takes away a route that [`Netlink::routes`] has listed.
    pub fn delete_route(&mut self, index: u32, route: &Route) -> io::Result<()> {
        self.tell(RouteNetlinkMessage::DelRoute(route_message(index, route)), 0)
    }

    fn tell(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.ask(message, flags | NLM_F_ACK).map(drop)
    }

    /// Sends a request and collects the answers up to the one that says that there are no more.
    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
        request.header.flags = NLM_F_REQUEST | flags;
        request.header.sequence_number = self.sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let mut answers = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for (header, payload) in split(&bytes) {
                match payload {
                    _ if header.sequence_number != self.sequence => {}
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(answers),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    _ => {}
                }
            }
        }
    }
}

/// Hears when a link comes, goes or changes.
pub struct LinkMonitor {
    socket: Socket,
}

impl LinkMonitor {
    /// Opens one: it hears of every change from now on.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, LINKS))?;
        socket.set_non_blocking(true)?;
        Ok(Self { socket })
    }

    /// Forgets what it has heard. What it was does not matter, and some of it may be lost anyway: the links have to be listed again.
    pub fn clear(&self) {
        let mut buffer = Vec::with_capacity(1 << 16);
        loop {
            buffer.clear();
            match self.socket.recv(&mut buffer, 0) {
                Ok(_) => {}
                // ENOBUFS: the kernel has dropped some, and says so once.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Splits what one read has returned into its messages. One that the library cannot read, such as a link of a kind that is newer than
/// it, is left out: it is not one of ours.
fn split(mut bytes: &[u8]) -> Vec<(NetlinkHeader, NetlinkPayload<RouteNetlinkMessage>)> {
    let mut messages = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let length = u32::from_ne_bytes(*length) as usize;
        let Some(message) = bytes.get(..length).filter(|message| !message.is_empty()) else { break };
        messages.extend(NetlinkMessage::deserialize(message).ok().map(NetlinkMessage::into_parts));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    messages
}

fn read_link(message: RouteNetlinkMessage) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let flags = message.header.flags;
    if message.header.link_layer_type != LinkLayerType::Ether || flags.contains(LinkFlags::Loopback) {
        return None;
    }
    let (mut name, mut mac, mut device) = (None, None, true);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(value) => name = Some(value),
            LinkAttribute::Address(value) => mac = Mac::try_from(value).ok(),
            LinkAttribute::Controller(_) => device = false,
            LinkAttribute::LinkInfo(infos) if infos.iter().any(|info| matches!(info, LinkInfo::Kind(_))) => device = false,
            _ => {}
        }
    }
    let (up, carrier) = (flags.contains(LinkFlags::Up), flags.contains(LinkFlags::Up | LinkFlags::Running));
    Some(Link { index: message.header.index, name: name?, mac: mac?, up, carrier, device })
}

fn address_message(index: u32, address: &Address) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = address.prefix_length;
    message.header.index = index;
    message.attributes =
        vec![AddressAttribute::Local(IpAddr::V4(address.address)), AddressAttribute::Address(IpAddr::V4(address.address))];
    message
}

fn read_address(message: RouteNetlinkMessage, index: u32) -> Option<Address> {
    let RouteNetlinkMessage::NewAddress(message) = message else { return None };
    if message.header.index != index {
        return None;
    }
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(IpAddr::V4(address)) => Some(*address),
        _ => None,
    })?;
    let permanent = message.header.flags.contains(AddressHeaderFlags::Permanent);
    Some(Address { address, prefix_length: message.header.prefix_len, permanent })
}

fn route_message(index: u32, route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = route.prefix_length;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Dhcp;
    message.header.scope = if route.gateway.is_some() { RouteScope::Universe } else { RouteScope::Link };
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![RouteAttribute::Oif(index), RouteAttribute::Priority(METRIC + index)];
    if route.prefix_length > 0 {
        message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(route.destination)));
    }
    let gateway = route.gateway.map(|gateway| RouteAttribute::Gateway(RouteAddress::Inet(gateway)));
    message.attributes.extend(gateway);
    message
}

fn read_route(message: RouteNetlinkMessage, index: u32) -> Option<Route> {
    let RouteNetlinkMessage::NewRoute(message) = message else { return None };
    if message.header.protocol != RouteProtocol::Dhcp || message.header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let prefix_length = message.header.destination_prefix_length;
    let mut route = Route { destination: Ipv4Addr::UNSPECIFIED, prefix_length, gateway: None };
    let mut ours = false;
    for attribute in message.attributes {
        match attribute {
            RouteAttribute::Oif(oif) => ours = oif == index,
            RouteAttribute::Destination(RouteAddress::Inet(address)) => route.destination = address,
            RouteAttribute::Gateway(RouteAddress::Inet(address)) => route.gateway = Some(address),
            _ => {}
        }
    }
    ours.then_some(route)
}
