//! The `updater` pod: checks which release a channel offers, verifies it, writes it to the other
//! slot, and requests a reboot from `init`.
//!
//! It is a library for the sake of its tests; the program is `main.rs`. [`check::check`] is one
//! check of the repository with all that follows from it.

#![deny(unsafe_code)]

pub mod check;
pub mod decision;
pub mod firmware;
mod memory;
mod newest;
pub mod pace;
pub mod repository;
mod seen;
pub mod settings;
pub mod slot;
mod writer;
