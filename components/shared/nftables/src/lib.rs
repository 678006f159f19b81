//! One table of nftables as bytes: the batch that replaces it at once, and the lists of the kernel
//! that show what it has. It has the few expressions that filter packets to a machine and those
//! that it forwards, and translate addresses, and takes any other for a difference. Nothing here
//! opens a socket.
//!
//! The code is our own: no crate in Rust fits. `nftnl` needs a library in C, `nftables` runs the
//! program `nft`, `rustables` is under the GPL, and `netlink-packet-netfilter` lacks tables.
//! `netlink-bindings` has all messages, in 21,000 generated lines, and leaves open what this crate
//! is for: whether the kernel has the table that was sent.

#![forbid(unsafe_code)]

mod attribute;
mod batch;
mod expression;
mod listing;
mod set;
mod table;
mod uapi;

pub use batch::Batch;
pub use expression::{Decision, Expression, Family, Header, Meta, Side};
pub use listing::{Listing, is_about};
pub use set::{KeyKind, Set};
pub use table::{Chain, ChainKind, Hook, Rule, Table};
pub use uapi::NFNLGRP_NFTABLES as REPORTS;
