//! The `updater` pod: finds out what a channel has, verifies it, writes it into the slot that does
//! not run, and has `init` boot it.
//!
//! It is a library so that the tests reach it; the program is `main.rs`. One look at the
//! repository, and all that follows from it, is [`look::look`].

#![deny(unsafe_code)]

pub mod decision;
pub mod firmware;
pub mod look;
mod memory;
mod newest;
pub mod pace;
pub mod repository;
mod seen;
pub mod settings;
pub mod slot;
mod writer;
