//! The sockets on one link. All reading goes through a packet socket, which needs no address, and
//! only while an answer is awaited; a port of the kernel's UDP would need a right that the pod does
//! not have (`NET_BIND_SERVICE`).

use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::message::Message;
use crate::packet::{self, CLIENT_PORT};
use crate::sys;

/// Larger than any frame that a server sends to a client which says that it takes 1472 bytes.
const MAX_FRAME: usize = 2048;

/// A socket that hears what is sent to our port on one link, and speaks to everybody on it.
#[derive(Debug)]
pub struct LinkSocket {
    socket: Socket,
    index: u32,
}

impl LinkSocket {
    /// Opens one on the link with this index.
    pub fn open(index: u32) -> io::Result<Self> {
        // Made without a protocol, it hears nothing before it is filtered and bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, None)?;
        socket.attach_filter(&filter())?;
        socket.set_nonblocking(true)?;
        socket.bind(&sys::everybody_on(index)?)?;
        Ok(Self { socket, index })
    }

    /// Sends a message to everybody.
    pub fn broadcast(&self, from: Ipv4Addr, message: &Message) -> io::Result<()> {
        let packet = packet::packet(from, Ipv4Addr::BROADCAST, &message.encode());
        self.socket.send_to(&packet, &sys::everybody_on(self.index)?).map(drop)
    }

    /// The next message that has come in, `None` if there is none. What is not DHCP is passed over.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        loop {
            let mut buffer = [0; MAX_FRAME];
            let length = match (&self.socket).read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            if let Some(Ok(message)) = packet::payload(&buffer[..length]).map(Message::decode) {
                return Ok(Some(message));
            }
        }
    }
}

impl AsFd for LinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends a message to one server over a link that has an address, by the kernel's routes: the
/// server can be behind a router. The answer goes to a [`LinkSocket`]; the kernel, which knows of
/// no such port, may tell the server so, which servers ignore.
pub fn unicast(link: &str, from: Ipv4Addr, to: Ipv4Addr, message: &Message) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
    socket.bind_device(Some(link.as_bytes()))?;
    socket.bind(&SocketAddrV4::new(from, 0).into())?;
    socket
        .send_to(&packet::datagram(from, to, &message.encode()), &SocketAddrV4::new(to, 0).into())
        .map(drop)
}

/// Asks the routers of a link to advertise themselves (RFC 4861, 4.1). The answer goes to the
/// kernel. It needs an address on the link: the link-local one, which the kernel gives it about a
/// second after it has a carrier.
pub fn solicit(link: &str, index: u32) -> io::Result<()> {
    const SOLICITATION: [u8; 8] = [133, 0, 0, 0, 0, 0, 0, 0];
    const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    socket.bind_device(Some(link.as_bytes()))?;
    // Routers answer only what no other router can have passed on.
    socket.set_multicast_hops_v6(255)?;
    socket.send_to(&SOLICITATION, &SocketAddrV6::new(ALL_ROUTERS, 0, 0, index).into()).map(drop)
}

/// Lets pass what is UDP, unfragmented, and to our port (classic BPF over the IPv4 header), so that
/// a busy link wakes nobody up.
fn filter() -> [SockFilter; 9] {
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_HALF_AFTER_HEADER: u16 = 0x48;
    const LOAD_HEADER_LENGTH: u16 = 0xb1;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_BITS: u16 = 0x45;
    const RETURN: u16 = 0x06;
    [
        SockFilter::new(LOAD_BYTE, 0, 0, 9),
        SockFilter::new(JUMP_IF_EQUAL, 0, 5, 17),
        SockFilter::new(LOAD_HALF, 0, 0, 6),
        SockFilter::new(JUMP_IF_BITS, 3, 0, 0x3fff),
        SockFilter::new(LOAD_HEADER_LENGTH, 0, 0, 0),
        SockFilter::new(LOAD_HALF_AFTER_HEADER, 0, 0, 2),
        SockFilter::new(JUMP_IF_EQUAL, 1, 0, CLIENT_PORT.into()),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, MAX_FRAME as u32),
    ]
}
