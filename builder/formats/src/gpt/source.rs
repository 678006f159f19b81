//! What a partition table is read from.

use alloc::boxed::Box;

/// A disk that can be read: a file, or what the firmware has for one.
pub trait Source {
    /// Why it was not read.
    type Error: Into<Box<dyn core::error::Error + Send + Sync>>;

    /// Fills `bytes` from `offset`, in bytes from the start of the disk. Both offset and length are
    /// multiples of the sector size.
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
