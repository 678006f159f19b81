//! The signatures and certificates that osbuild writes and reads: bytes in, bytes out, as in
//! `osbuild-formats`, without processes, network, clock or file paths. Private keys stay outside:
//! their owner signs the bytes that a function returns, and passes the signature to another.
//!
//! This is a crate of its own because the node's programs use `osbuild-formats`, and the lock pins
//! each crate that one of them names.

pub mod authenticode;
pub mod certificate;
pub mod detached;
pub mod efi;
mod error;
mod nesting;
pub mod pkcs7;

pub use error::Error;
