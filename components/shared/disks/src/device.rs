//! The device that an image is written to. It bypasses the page cache, so that data read back come
//! from the device and a progress bar shows what has arrived there.

use crate::error::{At, Error};
use crate::ioctl;
use crate::{Disk, Result};
use osbuild_formats::gpt::Write;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The maximum bytes of one read or write, enough for a stick's full speed.
pub const CHUNK: u64 = 4 << 20;

/// Alignment of memory for direct I/O: no device needs more than a page.
const PAGE: usize = 4096;

static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];

/// An open disk.
pub struct Device {
    file: File,
    path: PathBuf,
    memory: Memory,
    /// Whether the device can zero a range by itself. False once it has refused to.
    can_zero: bool,
}

/// How a range became zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroed {
    /// The device zeroed it on one command.
    ByDevice,
    /// This program read it, and wrote it if it was not zero.
    ByHand,
}

impl Device {
    /// Opens the disk with this device file; `alone` requires exclusive use.
    ///
    /// # Errors
    /// It does not exist, this user may not write it, or it is in use without being mounted (RAID,
    /// LVM, another program) although `alone` is set.
    pub fn open(path: &Path, alone: bool) -> Result<Self> {
        let alone = if alone { OFlags::EXCL } else { OFlags::empty() };
        let flags = (OFlags::DIRECT | alone).bits() as i32;
        let opened = File::options().read(true).write(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| Error::Open(path.to_owned(), error))?;
        Ok(Device { file, path: path.to_owned(), memory: Memory::new(), can_zero: true })
    }

    /// Opens a disk for exclusive use, if its device file is still that of the disk that was found.
    ///
    /// # Errors
    /// As for [`Device::open`], or another disk has the device file by now.
    pub fn open_found(disk: &Disk) -> Result<Self> {
        let device = Device::open(&disk.device, true)?;
        match are_others(disk.diskseq, device.diskseq()) {
            true => Err(Error::Replaced(disk.device.clone())),
            false => Ok(device),
        }
    }

    /// Its device file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for ioctls.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The sequence number ([`Disk::diskseq`](crate::Disk::diskseq)) of the open disk, even if
    /// another disk has its name by now.
    pub fn diskseq(&self) -> Option<u64> {
        ioctl::disk_sequence(&self.file).ok()
    }

    /// Writes `range`, at most [`CHUNK`] bytes, which `fill` supplies.
    pub fn write(
        &mut self,
        range: &Range<u64>,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let bytes = self.memory.bytes(range);
        fill(bytes)?;
        self.file.write_all_at(bytes, range.start).at("write", &self.path)
    }

    /// Reads `range`, at most [`CHUNK`] bytes.
    pub fn read(&mut self, range: &Range<u64>) -> Result<&[u8]> {
        let bytes = self.memory.bytes(range);
        self.file.read_exact_at(bytes, range.start).at("read", &self.path)?;
        Ok(bytes)
    }

    /// Makes `range`, at most [`CHUNK`] bytes, read as zeros, and returns how.
    ///
    /// Most devices do this themselves and at once (`REQ_OP_WRITE_ZEROES`). Many sticks and cards
    /// cannot, but they read fast, so only ranges that are not zero are written.
    pub fn zero(&mut self, range: &Range<u64>) -> Result<Zeroed> {
        if self.can_zero {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(&self.file, flags, range.start, range.end - range.start) {
                Ok(()) => return Ok(Zeroed::ByDevice),
                Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => self.can_zero = false,
                Err(error) => return Err(error).at("write zeros to", &self.path),
            }
        }
        if !is_zero(self.read(range)?) {
            self.write(range, |bytes| {
                bytes.fill(0);
                Ok(())
            })?;
        }
        Ok(Zeroed::ByHand)
    }

    /// Makes the writes in order, and flushes each before the next.
    pub fn write_in_order(&mut self, writes: &[Write]) -> Result<()> {
        for Write { offset, bytes } in writes {
            let range = *offset..offset + bytes.len() as u64;
            self.write(&range, |memory| {
                memory.copy_from_slice(bytes);
                Ok(())
            })?;
            self.flush()?;
        }
        Ok(())
    }

    /// Returns when all written data are on the medium.
    pub fn flush(&self) -> Result<()> {
        self.file.sync_all().at("write", &self.path)
    }

    /// Makes the kernel read the partition table, and returns whether it kept the old one because a
    /// partition is in use. The kernel has no table for some devices.
    pub fn shows_old_partitions(&self) -> bool {
        ioctl::reread_partition_table(&self.file) == Err(Errno::BUSY)
    }
}

/// Whether all of the bytes, at most [`CHUNK`], are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    *bytes == ZEROS[..bytes.len()]
}

/// Memory with the alignment of direct I/O.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
}

impl Memory {
    fn new() -> Self {
        let bytes = vec![0; CHUNK as usize + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE);
        Memory { bytes, start }
    }

    fn bytes(&mut self, range: &Range<u64>) -> &mut [u8] {
        let length = (range.end - range.start) as usize;
        &mut self.bytes[self.start..self.start + length]
    }
}

/// Whether two sequence numbers are those of different disks. A kernel without them says nothing.
fn are_others(found: Option<u64>, now: Option<u64>) -> bool {
    found.zip(now).is_some_and(|(found, now)| found != now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_another_sequence_number_is_another_one() {
        assert!(are_others(Some(7), Some(8)));
        for (found, now) in [(Some(7), Some(7)), (None, Some(8)), (Some(7), None), (None, None)] {
            assert!(!are_others(found, now), "{found:?} {now:?}");
        }
    }
}
