//! The initramfs: the archive that the kernel unpacks into its first root. It is not compressed,
//! because its layers are.

mod archive;
mod entry;
mod error;

pub use archive::{read, write, write_with};
pub use entry::{Entry, Kind};
pub use error::Error;
