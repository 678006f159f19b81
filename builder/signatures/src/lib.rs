//! Signatures and certificates that osbuild writes and reads. Bytes only, as in `osbuild-formats`:
//! no process, no network, no clock, no path; and no private key. Whoever has one signs what is
//! given to him, and gives the signature back.
//!
//! It is a crate of its own because the node's programs take `osbuild-formats`, and the lock pins
//! every crate that one of them names.

pub mod authenticode;
pub mod certificate;
pub mod detached;
pub mod efi;
mod error;
mod nesting;
pub mod pkcs7;

pub use error::Error;
