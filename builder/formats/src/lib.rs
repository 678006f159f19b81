//! The file formats that osbuild writes and reads: bytes in, bytes out, without processes, network,
//! clock or file paths.
//!
//! The same input gives the same bytes on every machine. Readers accept untrusted bytes: they
//! return an error and never panic.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

#[cfg(feature = "cpio")]
pub mod cpio;
#[cfg(feature = "images")]
pub mod disk_image;
#[cfg(feature = "pe")]
pub mod epoch;
#[cfg(feature = "erofs")]
pub mod erofs;
#[cfg(feature = "ext4")]
pub mod ext4;
#[cfg(feature = "fat-replace")]
pub mod fat;
pub mod gpt;
#[cfg(any(feature = "erofs", feature = "fat-replace"))]
mod le;
#[cfg(feature = "pe")]
pub mod pe;
#[cfg(feature = "images")]
pub mod qcow2;
pub mod signature_list;
#[cfg(feature = "images")]
pub mod uki;
#[cfg(feature = "volumes")]
pub mod volume;
