//! Whole disks, as the kernel shows them: which there are, what is on them in words, and how the
//! image of a node gets onto one. What flashes a stick on the build machine and what installs a
//! machine from a stick both do it by this.
//!
//! The order of [`write`](write::write), [`compare`](write::compare) and [`Device::write_in_order`]
//! is what makes a power cut harmless: a disk has no partition table until all else is on it, and
//! has been read back.

mod contents;
mod device;
mod disk;
mod error;
mod image;
pub mod ioctl;
pub mod write;

pub use contents::contents;
pub use device::Device;
pub use disk::{Disk, NO_DISKS, all, device_file};
pub use error::Error;
pub use image::{Ends, Image, Piece};

/// What nearly everything here returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A size for people: `71.0 MB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
