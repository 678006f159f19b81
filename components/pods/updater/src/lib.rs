//! The `updater` pod: checks which release a channel offers, verifies it, writes it to the other
//! slot, and requests a reboot from `init` once the node's cluster has granted it.
//!
//! It is a library for the sake of its tests; the program is `main.rs`. [`check::check`] is one
//! check of the repository with all that follows from it. [`grantor::grant`] is the other side: it
//! runs once in a cluster, and grants its nodes their reboots.

#![deny(unsafe_code)]

mod api;
pub mod check;
pub mod cluster_files;
pub mod decision;
pub mod firmware;
pub mod grantor;
mod memory;
mod newest;
mod objects;
mod own_node;
pub mod pace;
pub mod proxy;
pub mod report;
pub mod repository;
mod request;
pub mod request_for_check;
mod seen;
pub mod settings;
pub mod slot;
mod writer;
