//! A DHCPv4 client (RFC 2131) that gets a node its addresses. The library is for the tests; the program is `main.rs`.
//!
//! From the inside out: bytes ([`message`], [`names`], [`packet`]), what they mean ([`terms`]), what to do next ([`lease`], which is
//! pure), and the world ([`socket`], [`netlink`], [`settings`]), which [`link`] brings together for one link.

pub mod lease;
pub mod link;
pub mod message;
pub mod names;
pub mod netlink;
pub mod packet;
pub mod settings;
pub mod socket;
pub mod sys;
pub mod terms;
