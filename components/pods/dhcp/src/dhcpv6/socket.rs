//! The sockets of DHCPv6 on one link: a packet socket receives, which needs no privileged port and
//! gets answers before the node's firewall does, and a raw one sends.

use std::io::{self, Read};
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use super::message::Message;
use super::packet::{self, CLIENT_PORT};
use crate::sys;

/// Larger than any frame of an Ethernet link of usual MTU; a server's message fits into one.
const MAX_FRAME: usize = 2048;
/// All servers and relays of a link (RFC 8415, 7.1).
const ALL_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// A socket that receives messages to our port on one link.
#[derive(Debug)]
pub struct LinkSocket(Socket);

impl LinkSocket {
    /// Opens a socket on the link with this index.
    pub fn open(index: u32) -> io::Result<Self> {
        // Without a protocol it receives nothing before it has its filter and is bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, None)?;
        socket.attach_filter(&filter())?;
        socket.set_nonblocking(true)?;
        socket.bind(&sys::everybody_on(index, libc::ETH_P_IPV6)?)?;
        Ok(Self(socket))
    }

    /// The next received message, `None` if there is none. Packets that are not DHCPv6 are skipped.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        loop {
            let mut buffer = [0; MAX_FRAME];
            let length = match (&self.0).read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            if let Some(message) = packet::payload(&buffer[..length]).and_then(Message::decode) {
                return Ok(Some(message));
            }
        }
    }
}

impl AsFd for LinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends a message to all servers and relays of a link, which needs its link-local address.
pub fn send(link: &str, index: u32, message: &Message) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::UDP))?;
    socket.bind_device(Some(link.as_bytes()))?;
    socket.connect(&SocketAddrV6::new(ALL_SERVERS, 0, 0, index).into())?;
    // The kernel has chosen the address, which the checksum covers.
    let from = socket.local_addr()?.as_socket_ipv6().map(|from| *from.ip());
    let from = from.ok_or(io::ErrorKind::AddrNotAvailable)?;
    socket.send(&packet::datagram(from, ALL_SERVERS, &message.encode())).map(drop)
}

/// A filter for UDP packets to our port (classic BPF over the IPv6 header), so that a busy link
/// does not wake the program.
fn filter() -> [SockFilter; 6] {
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF: u16 = 0x28;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    [
        SockFilter::new(LOAD_BYTE, 0, 0, 6),
        SockFilter::new(JUMP_IF_EQUAL, 0, 3, 17),
        SockFilter::new(LOAD_HALF, 0, 0, 42),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, CLIENT_PORT.into()),
        SockFilter::new(RETURN, 0, 0, MAX_FRAME as u32),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}
