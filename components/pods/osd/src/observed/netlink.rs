//! Sockets to the kernel for what is observed of its network. They can only read.

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use osbuild_rtnetlink::{Answer, Request, answers, u32_at};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The flags of a request for all there are.
pub const DUMP: i32 = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;

/// The flag of a list that may be incomplete, as a change interrupted it (`NLM_F_DUMP_INTR`).
const INTERRUPTED: u16 = 0x10;

/// How long the kernel may take for an answer, which it sends at once.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Changed links, addresses and routes.
const GROUPS: i32 = libc::RTMGRP_LINK
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_ROUTE;

/// Messages that are dropped in a row. More of them wait for the next time.
const MAX_DROPPED: usize = 10_000;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// The family with the kernel's number (`AF_…`).
    pub fn of(number: u8) -> Option<Family> {
        match number.into() {
            libc::AF_INET => Some(Family::Ipv4),
            libc::AF_INET6 => Some(Family::Ipv6),
            _ => None,
        }
    }

    /// Its name in specs.
    pub fn name(self) -> &'static str {
        match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        }
    }

    /// The address of which all bits are zero.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Family::Ipv4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Reads an address of the family.
    pub fn address(self, octets: &[u8]) -> Option<IpAddr> {
        match self {
            Family::Ipv4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
            Family::Ipv6 => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
        }
    }
}

/// Has the kernel list something.
///
/// # Errors
/// The kernel refuses, or does not answer in time. [`ErrorKind::Interrupted`]: something was
/// changed meanwhile, so that the list is no state that there was.
pub fn dump(request: Request, mut take: impl FnMut(&Answer)) -> io::Result<()> {
    const DONE: u16 = libc::NLMSG_DONE as u16;
    const ERROR: u16 = libc::NLMSG_ERROR as u16;
    const SEQUENCE: u32 = 1;
    // A socket for each list, so that no answer is of another one.
    let mut socket = open(TIMEOUT)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request.finish(SEQUENCE), 0)?;
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        for answer in answers(&bytes).filter(|answer| answer.sequence == SEQUENCE) {
            if answer.flags & INTERRUPTED != 0 {
                return Err(ErrorKind::Interrupted.into());
            }
            match (answer.kind, u32_at(answer.payload, 0)) {
                (DONE, _) => return Ok(()),
                (ERROR, number) => {
                    // The kernel's error numbers are negative.
                    let number = (number.unwrap_or_default() as i32).wrapping_neg();
                    return Err(io::Error::from_raw_os_error(number));
                }
                _ => take(&answer),
            }
        }
    }
}

/// Changes of links, addresses and routes. What they say is not read: the kernel drops messages
/// when it has too many, so only a list has all that there is.
pub struct Events {
    socket: Socket,
}

impl Events {
    /// Notices every change from now on.
    pub fn open(timeout: Duration) -> io::Result<Events> {
        let mut socket = open(timeout)?;
        socket.bind(&SocketAddr::new(0, GROUPS as u32))?;
        Ok(Events { socket })
    }

    /// Waits for a change until the timeout. Returns the error if the socket cannot be read.
    pub fn wait(&self) -> io::Result<()> {
        match self.drop_one(0) {
            Err(error) if is_timeout(&error) || is_overflow(&error) => Ok(()),
            other => other,
        }
    }

    /// Forgets the changes of which the next list has to tell.
    pub fn drop_all(&self) {
        for _ in 0..MAX_DROPPED {
            match self.drop_one(libc::MSG_DONTWAIT) {
                Err(error) if !is_overflow(&error) => return,
                _ => {}
            }
        }
    }

    fn drop_one(&self, flags: i32) -> io::Result<()> {
        // The kernel cuts off what does not fit.
        let mut buffer = [0; 16];
        self.socket.recv(&mut &mut buffer[..], flags).map(drop)
    }
}

fn open(timeout: Duration) -> io::Result<Socket> {
    let socket = Socket::new(NETLINK_ROUTE)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(timeout))?;
    Ok(socket)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The kernel has dropped messages, and reports it once.
fn is_overflow(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}
