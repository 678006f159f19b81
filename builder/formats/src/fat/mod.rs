//! FAT32 volumes (Microsoft's FAT specification 1.03), the file system of the EFI system partition.

mod error;
pub(crate) mod long_name;
pub(crate) mod raw;
mod replace;
mod tree;
#[cfg(feature = "fat")]
mod volume;

pub use error::Error;
pub use replace::{find, replace};
#[cfg(feature = "fat")]
pub use volume::{File, Volume, min_size, read};

/// A volume with fewer than 65525 clusters is not FAT32. The minimum is a little higher, because
/// some tools get the limit wrong.
const MIN_CLUSTERS: u64 = 65_536;
