//! The initramfs: the archive of files that the kernel unpacks into its first root. It is not
//! compressed, as its layers are.

mod archive;
mod entry;
mod error;

pub use archive::{read, write, write_with};
pub use entry::{Entry, Kind};
pub use error::Error;
