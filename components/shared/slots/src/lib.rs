//! The two slots of a disk: which one is booted, what that costs, and when it changes.
//!
//! Everything here is pure, so that the builder, slotboot, `init` and the tests share one set of
//! rules. A slot is a partition of ChromeOS's kernel type; its state is three fields among the
//! attribute bits of its entry in the partition table ([`State`]). It begins with a [`Header`], and
//! the UKI stands behind that. [`boot`] is all that slotboot does, on any [`Machine`].

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
