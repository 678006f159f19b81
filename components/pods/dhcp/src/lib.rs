//! A DHCPv4 client (RFC 2131) that gets a node its addresses, reads what IPv6 routers advertise
//! (RFC 8106), asks for what they leave to DHCPv6 ([`dhcpv6`], RFC 8415), makes the links and sets
//! the addresses and routes of settings ([`static_network`]), and sets their firewall and NAT rules
//! ([`firewall`]). The library is for the tests; the program is `main.rs`.
//!
//! From the inside out: bytes ([`message`], [`names`], [`packet`], [`router`],
//! [`osbuild_rtnetlink`]), what they mean ([`terms`], [`link_kind`]), what to do next ([`choice`],
//! [`lease`], [`advertised`], which are pure), and the world ([`socket`], [`netlink`],
//! [`settings`]), which [`link`] brings together for one link.

pub mod advertised;
pub mod choice;
pub mod dhcpv6;
pub mod firewall;
pub mod lease;
pub mod link;
pub mod link_kind;
pub mod message;
pub mod names;
pub mod netlink;
pub mod pace;
pub mod packet;
pub mod router;
pub mod settings;
pub mod socket;
pub mod static_network;
pub mod sys;
pub mod terms;
