//! A DHCPv6 client (RFC 8415) for addresses and for options, which the routers of a link ask for in
//! their advertisements. From the inside out: bytes ([`message`], [`packet`]), what they mean
//! ([`terms`]), what to do next ([`client`], which is pure), and the world ([`socket`], [`link`]).

pub mod client;
pub mod link;
pub mod message;
pub mod packet;
pub mod socket;
pub mod terms;

/// The part of the configuration that the routers of a link leave to DHCPv6 (RFC 4861, 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing.
    #[default]
    Nothing,
    /// Options such as name servers (flag O).
    Options,
    /// Addresses and options (flag M).
    Addresses,
}
