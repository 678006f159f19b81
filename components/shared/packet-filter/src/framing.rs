//! The framing of packets: the header of the link layer, which only some sockets show.

/// The header before the network's header in the packets of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A header of Ethernet: sockets of the type `SOCK_RAW` at a link of Ethernet, or the loopback.
    Ethernet,
    /// Nothing: sockets of the type `SOCK_DGRAM`. The kernel says which protocol a packet has.
    Cooked,
}

impl Framing {
    /// The bytes before the network's header, without VLAN tags.
    pub(crate) fn header(self) -> u32 {
        match self {
            Framing::Ethernet => 14,
            Framing::Cooked => 0,
        }
    }
}
