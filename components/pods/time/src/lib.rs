//! An SNTP client that keeps a node's clock right. The library is for the tests and the fuzzer; the
//! program is `main.rs`.
//!
//! From the inside out: one query of one server ([`exchange`]), what several servers agree on
//! ([`agreement`]), what to do about it ([`discipline`], [`holds`], which are pure), and the world
//! ([`servers`], [`host`], [`sys`]).

pub mod agreement;
pub mod discipline;
pub mod exchange;
pub mod holds;
pub mod host;
pub mod servers;
pub mod sys;
