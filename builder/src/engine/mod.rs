//! Runs actions and keeps their results, without knowing what they build.
//!
//! An [`action::Action`] is a command, its files and its environment. Its digest is the key under
//! which the [`store`] keeps the result. The [`executor`] finds that result or runs the command in
//! a sandbox, and the [`graph`] decides which steps run at the same time.

pub mod action;
mod bubblewrap;
pub mod deb;
pub mod digest;
pub mod executor;
pub mod fs_error;
pub mod graph;
pub mod key;
pub mod launcher;
pub mod reapi;
pub mod remote;
pub mod rules;
pub mod sandbox;
pub mod shortage;
pub mod sparse;
pub mod stop;
pub mod store;
pub mod toolchain;
