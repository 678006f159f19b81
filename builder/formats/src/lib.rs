//! File formats that osbuild writes and reads. Bytes only: no process, no network, no clock, and no path.
//!
//! The same input gives the same bytes everywhere. Readers take untrusted bytes: they give an error, they never panic.

#[cfg(feature = "cpio")]
pub mod cpio;
pub mod disk;
pub mod erofs;
#[cfg(feature = "fat")]
pub mod fat;
pub mod gpt;
mod le;
pub mod pe;
pub mod uki;
