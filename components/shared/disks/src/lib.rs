//! Whole disks: which disks the machine has, their contents in words, and how to write a node's
//! image to one. `osbuild flash` on the build machine and the installer on a stick use this crate.
//!
//! The order of [`write`](write::write), [`compare`](write::compare) and [`Device::write_in_order`]
//! makes a power cut harmless: a disk gets its partition table only after everything else has been
//! written and read back.

mod blank;
mod contents;
mod device;
mod disk;
mod error;
mod image;
pub mod ioctl;
pub mod write;

pub use blank::{Contents, look_for_contents};
pub use contents::contents;
pub use device::Device;
pub use disk::{Disk, NOT_DISKS, all, device_file};
pub use error::Error;
pub use image::{Ends, Image, Piece};

/// The result of nearly every function here.
pub type Result<T> = std::result::Result<T, Error>;

/// A size in readable form: `71.0 MB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
