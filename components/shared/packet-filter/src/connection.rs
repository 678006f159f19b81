//! A TCP connection that a filter leaves out.

use crate::condition::Condition;
use crate::primitive;
use crate::qualifiers::{Direction, Transport};
use std::net::SocketAddr;

/// A TCP connection. Both addresses are of the same version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// One end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
}

impl Connection {
    /// Whether a packet belongs to it, in either direction. Packets with VLAN tags in them are
    /// not looked into.
    pub(crate) fn condition(&self) -> Condition {
        let (local, peer) = (self.local, self.peer);
        Condition::or(from_to(local, peer), from_to(peer, local))
    }
}

fn from_to(source: SocketAddr, destination: SocketAddr) -> Condition {
    let end = |address: SocketAddr, direction| {
        let host = primitive::host(address.ip().to_canonical(), direction, 0);
        let ports = address.port()..=address.port();
        Condition::and(host, primitive::ports(&ports, Transport::Tcp, direction, 0))
    };
    Condition::and(end(source, Direction::Source), end(destination, Direction::Destination))
}
