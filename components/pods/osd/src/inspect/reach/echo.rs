//! ICMP echo requests (RFC 792, RFC 4443), over the kernel's sockets for them, which need no
//! capability: the kernel lets group 0 have them (`net.ipv4.ping_group_range`).

use super::super::sys;
use super::steps::Failed;
use super::words;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::ffi::c_int;
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};

/// The bytes of an ICMP header.
const HEADER: usize = 8;

/// The greatest packet of IP.
const MAX_PACKET: usize = 65_535;

/// Types of ICMP messages.
const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;
const ECHO_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// The outcome of an echo request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The same bytes, after this time.
    Echo(Duration),
    /// The packet is larger than this many bytes, which is the most on the way to `from`, or on the
    /// node's own link.
    TooBig { max: usize, from: Option<IpAddr> },
    /// A router let the packet end, as it had used up its hops.
    HopsUsed { from: Option<IpAddr>, after: Duration },
    /// A router or the target says that it cannot be delivered.
    Undeliverable { from: Option<IpAddr>, error: Errno },
    /// Nothing.
    Silence,
}

/// A socket for echo requests to one address.
pub struct Echo {
    socket: UdpSocket,
    address: IpAddr,
    sequence: u16,
}

impl Echo {
    /// Opens a socket. There has to be a runtime.
    pub fn open(address: IpAddr) -> Result<Echo, Failed> {
        let open = || -> io::Result<Echo> {
            let (domain, protocol) = match address {
                IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
                IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
            };
            let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(protocol))?;
            let (level, name) = match address {
                IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR),
                IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            };
            sys::set_option(socket.as_fd(), level, name, 1)?;
            socket.connect(&SockAddr::from(SocketAddr::new(address, 0)))?;
            // A socket of datagrams is one, whichever its protocol is.
            let socket = UdpSocket::from_std(socket.into())?;
            Ok(Echo { socket, address, sequence: 0 })
        };
        open().map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ACCESS) => Failed::new(
                "the node permits no ICMP sockets",
                "the kernel parameter `net.ipv4.ping_group_range` leaves out group 0",
            ),
            _ => words::reach(&error, address),
        })
    }

    /// The bytes of the headers of a packet.
    fn headers(&self) -> usize {
        HEADER + if self.address.is_ipv4() { 20 } else { 40 }
    }

    /// Lets packets end after this many hops.
    pub fn set_hops(&self, hops: u32) -> io::Result<()> {
        match self.address {
            IpAddr::V4(_) => SockRef::from(&self.socket).set_ttl_v4(hops),
            IpAddr::V6(_) => SockRef::from(&self.socket).set_unicast_hops_v6(hops),
        }
    }

    /// Has no router fragment a packet, nor the kernel.
    pub fn forbid_fragments(&self) -> io::Result<()> {
        let (level, name, value) = match self.address {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
            IpAddr::V6(_) => {
                (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
            }
        };
        sys::set_option(self.socket.as_fd(), level, name, value)
    }

    /// The greatest packet that the node sends to the address, in bytes.
    pub fn mtu(&self) -> io::Result<usize> {
        let (level, name) = match self.address {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        let mtu = sys::option(self.socket.as_fd(), level, name)?;
        Ok(usize::try_from(mtu).unwrap_or(0).min(MAX_PACKET))
    }

    /// Sends a packet of this many bytes, headers included, and waits for what comes back.
    pub async fn send(&mut self, bytes: usize, wait: Duration) -> io::Result<Reply> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut packet = vec![0; bytes.max(self.headers()) - self.headers() + HEADER];
        packet[0] = if self.address.is_ipv4() { ECHO } else { ECHO_V6 };
        packet[6..HEADER].copy_from_slice(&self.sequence.to_be_bytes());
        let began = Instant::now();
        if let Err(error) = SockRef::from(&self.socket).send(&packet) {
            return match Errno::from_io_error(&error) {
                Some(Errno::MSGSIZE) => Ok(Reply::TooBig { max: self.mtu()?, from: None }),
                Some(error) => Ok(Reply::Undeliverable { from: None, error }),
                None => Err(error),
            };
        }
        let interest = Interest::READABLE | Interest::ERROR;
        let sequence = self.sequence;
        let receive = || receive(&SockRef::from(&self.socket), sequence, began);
        match timeout(wait, self.socket.async_io(interest, receive)).await {
            Ok(reply) => reply,
            Err(_) => Ok(Reply::Silence),
        }
    }
}

/// Reads the reply to the request with this sequence number, or the error in its place.
fn receive(socket: &Socket, sequence: u16, began: Instant) -> io::Result<Reply> {
    loop {
        if let Some((number, reply)) = receive_error(socket, began)? {
            if number == sequence {
                return Ok(reply);
            }
            continue;
        }
        let mut head = [0; HEADER];
        match (&mut &*socket).read(&mut head) {
            Ok(HEADER..) => {
                let is_reply = matches!(head[0], ECHO_REPLY | ECHO_REPLY_V6);
                if is_reply && u16::from_be_bytes([head[6], head[7]]) == sequence {
                    return Ok(Reply::Echo(began.elapsed()));
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
            // Too short, or the error of a message that is in the queue of errors now.
            _ => {}
        }
    }
}

/// The next error in the queue (ip(7)), with the number of its packet.
fn receive_error(socket: &Socket, began: Instant) -> io::Result<Option<(u16, Reply)>> {
    let mut head = [0; HEADER];
    let mut control = nix::cmsg_space!([u8; 256]);
    let mut into = [IoSliceMut::new(&mut head)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let received =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut into, Some(&mut control), flags);
    let messages = match received {
        Err(nix::Error::EAGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
        Ok(received) => received.cmsgs()?.collect::<Vec<_>>(),
    };
    let reply = messages.into_iter().find_map(|message| match message {
        ControlMessageOwned::Ipv4RecvErr(error, from) => {
            let from = from.map(|from| Ipv4Addr::from(from.sin_addr.s_addr.to_ne_bytes()).into());
            Some(reply(&error, from, began))
        }
        ControlMessageOwned::Ipv6RecvErr(error, from) => {
            let from = from.map(|from| Ipv6Addr::from(from.sin6_addr.s6_addr).into());
            Some(reply(&error, from, began))
        }
        _ => None,
    });
    let number = u16::from_be_bytes([head[6], head[7]]);
    Ok(reply.map(|reply| (number, reply)))
}

fn reply(error: &libc::sock_extended_err, from: Option<IpAddr>, began: Instant) -> Reply {
    /// `ICMP_TIME_EXCEEDED`, and its like of version 6.
    const TIME_EXCEEDED: u8 = 11;
    const TIME_EXCEEDED_V6: u8 = 3;
    let is_used = match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => error.ee_type == TIME_EXCEEDED,
        libc::SO_EE_ORIGIN_ICMP6 => error.ee_type == TIME_EXCEEDED_V6,
        _ => false,
    };
    let errno = Errno::from_raw_os_error(error.ee_errno as c_int);
    let from = from.filter(|from| !from.is_unspecified());
    match errno {
        _ if is_used => Reply::HopsUsed { from, after: began.elapsed() },
        Errno::MSGSIZE => Reply::TooBig { max: usize::try_from(error.ee_info).unwrap_or(0), from },
        error => Reply::Undeliverable { from, error },
    }
}
