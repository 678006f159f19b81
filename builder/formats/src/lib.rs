//! File formats that osbuild writes and reads. Bytes only: no process, no network, no clock, and no
//! path.
//!
//! The same input gives the same bytes everywhere. Readers take untrusted bytes: they give an
//! error, they never panic.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

#[cfg(feature = "cpio")]
pub mod cpio;
#[cfg(feature = "images")]
pub mod disk;
#[cfg(feature = "pe")]
pub mod epoch;
#[cfg(feature = "erofs")]
pub mod erofs;
#[cfg(feature = "ext4")]
pub mod ext4;
#[cfg(feature = "fat-replace")]
pub mod fat;
pub mod gpt;
mod le;
#[cfg(feature = "pe")]
pub mod pe;
#[cfg(feature = "images")]
pub mod qcow2;
#[cfg(feature = "images")]
pub mod uki;
