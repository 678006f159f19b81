//! The trait of disks from which a partition table is read.

use alloc::boxed::Box;

/// A readable disk: a file, or a block device of the firmware.
pub trait Source {
    /// The reason of a failed read.
    type Error: Into<Box<dyn core::error::Error + Send + Sync>>;

    /// Fills `bytes` from `offset`, in bytes from the start of the disk. A partition table is read
    /// in whole sectors: then the offset and the length are multiples of the sector size. Other
    /// readers, such as that of ext4, read at any offset.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;
}

#[cfg(feature = "std")]
impl<D: std::io::Read + std::io::Seek> Source for D {
    type Error = std::io::Error;

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.seek(std::io::SeekFrom::Start(offset))?;
        self.read_exact(bytes)
    }
}
