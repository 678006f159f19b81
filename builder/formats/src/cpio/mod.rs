//! The initramfs: archives of files that the kernel unpacks into its first root.

mod archive;
mod entry;
mod error;
mod segment;

pub use archive::write;
pub use entry::{Entry, Kind};
pub use error::Error;
pub use segment::{Segment, compress, join, read};
