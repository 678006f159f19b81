//! The two slots of a disk: which one boots, what a boot costs, and when that changes.
//!
//! This crate is pure, so that the builder, slotboot, `init` and the tests share one set of rules.
//! A slot is a partition of ChromeOS's kernel type; its state is three fields of the attribute bits
//! in its partition table entry ([`State`]). It begins with a [`Header`], and the UKI follows.
//! [`boot`] is everything that slotboot does, on any [`Machine`].

#![no_std]

extern crate alloc;

mod boot;
mod header;
mod mark;
mod slot;
mod state;

pub use boot::{Machine, Stop, boot};
pub use header::{Header, HeaderError};
pub use mark::{Mark, mark};
pub use slot::{Slot, other, slots};
pub use state::State;
