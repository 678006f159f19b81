//! The rollout of a release: which nodes may update, and when.
//!
//! A publisher writes a [`Schedule`]. Its signed form, the [`Rollout`], is in the document of a
//! channel's release, and tells a node why it has to [wait](Hold). The crate does no I/O.
//! Maintenance windows and places are also those of a cluster's grantor.

#![forbid(unsafe_code)]

mod place;
mod portion;
mod rollout;
mod waves;
mod window;

pub use place::{PLACES, place};
pub use portion::Portion;
pub use rollout::{Hold, Rollout, Schedule};
pub use waves::{Wave, Waves};
pub use window::{Window, is_any_open};
