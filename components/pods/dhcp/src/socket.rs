//! The sockets on one link. Messages are received with a packet socket, which needs no address, and
//! only while a reply is expected. A UDP socket on the client's port would need a capability that
//! the pod does not have (`NET_BIND_SERVICE`).

use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::message::Message;
use crate::packet::{self, CLIENT_PORT};
use crate::sys;

/// Larger than any frame for a client whose maximum message size is 1472 bytes.
const MAX_FRAME: usize = 2048;

/// A socket that receives messages to our port on one link, and broadcasts on it.
#[derive(Debug)]
pub struct LinkSocket {
    socket: Socket,
    index: u32,
}

impl LinkSocket {
    /// Opens a socket on the link with this index.
    pub fn open(index: u32) -> io::Result<Self> {
        // Without a protocol it receives nothing before it has its filter and is bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, None)?;
        socket.attach_filter(&filter())?;
        socket.set_nonblocking(true)?;
        socket.bind(&sys::everybody_on(index, libc::ETH_P_IP)?)?;
        Ok(Self { socket, index })
    }

    /// Broadcasts a message.
    pub fn broadcast(&self, from: Ipv4Addr, message: &Message) -> io::Result<()> {
        let packet = packet::packet(from, Ipv4Addr::BROADCAST, &message.encode());
        self.socket.send_to(&packet, &sys::everybody_on(self.index, libc::ETH_P_IP)?).map(drop)
    }

    /// The next received message, `None` if there is none. Packets that are not DHCP are skipped.
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

/// Sends a message to one server over a link that has an address. The kernel routes it, because the
/// server may be behind a router. The reply goes to a [`LinkSocket`]; the kernel may also send the
/// server a "port unreachable", which servers ignore.
pub fn unicast(link: &str, from: Ipv4Addr, to: Ipv4Addr, message: &Message) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
    socket.bind_device(Some(link.as_bytes()))?;
    socket.bind(&SocketAddrV4::new(from, 0).into())?;
    socket
        .send_to(&packet::datagram(from, to, &message.encode()), &SocketAddrV4::new(to, 0).into())
        .map(drop)
}

/// Solicits advertisements from the routers of a link (RFC 4861, 4.1). The kernel processes them.
/// The link needs its link-local address, which it gets about a second after its carrier.
pub fn solicit(link: &str, index: u32) -> io::Result<()> {
    const SOLICITATION: [u8; 8] = [133, 0, 0, 0, 0, 0, 0, 0];
    const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    socket.bind_device(Some(link.as_bytes()))?;
    // Routers ignore solicitations that another router could have forwarded.
    socket.set_multicast_hops_v6(255)?;
    socket.send_to(&SOLICITATION, &SocketAddrV6::new(ALL_ROUTERS, 0, 0, index).into()).map(drop)
}

/// A filter for unfragmented UDP packets to our port (classic BPF over the IPv4 header), so that a
/// busy link does not wake the program.
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
