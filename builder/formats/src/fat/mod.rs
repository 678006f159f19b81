//! FAT32 volumes (Microsoft's FAT specification 1.03), as the EFI system partition is one.

mod error;
mod long_name;
mod replace;
mod tree;
#[cfg(feature = "fat")]
mod volume;

pub use error::Error;
pub use replace::{find, replace};
#[cfg(feature = "fat")]
pub use volume::{File, Volume, least_size, read};

/// A volume with fewer than 65525 clusters is not FAT32. A few more, as tools have been wrong about
/// the limit.
const LEAST_CLUSTERS: u64 = 65_536;
