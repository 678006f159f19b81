//! The device that is written: past the page cache, so that what is read back comes from the device
//! and a bar shows what has arrived.

use crate::Result;
use crate::error::{At, Error};
use crate::ioctl;
use osbuild_formats::gpt::Write;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The most bytes that are read or written at once: enough for a stick to be as fast as it can.
pub const CHUNK: u64 = 4 << 20;

/// Where the memory of direct reads and writes has to begin: no device asks for more than a page.
const PAGE: usize = 4096;

static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];

/// A disk that nobody else uses, or that the user gave away in spite of that.
pub struct Device {
    file: File,
    path: PathBuf,
    memory: Memory,
    /// Whether the device makes bytes zero by itself, as far as is known.
    can_zero: bool,
}

/// How a place became zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroed {
    /// The device did it, asked by one command.
    ByDevice,
    /// It was read, and written unless it was zero already.
    ByHand,
}

impl Device {
    /// Opens the disk with this device file; `alone` if nobody else may use it.
    ///
    /// # Errors
    /// It is gone, may not be written by this user, or is to be alone and used by what has no
    /// mount: RAID, LVM, another program.
    pub fn open(path: &Path, alone: bool) -> Result<Self> {
        let alone = if alone { OFlags::EXCL } else { OFlags::empty() };
        let flags = (OFlags::DIRECT | alone).bits() as i32;
        let opened = File::options().read(true).write(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| Error::Open(path.to_owned(), error))?;
        Ok(Device { file, path: path.to_owned(), memory: Memory::new(), can_zero: true })
    }

    /// Its device file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for calls that only the kernel's drivers answer.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The number that [`Disk::diskseq`](crate::Disk::diskseq) is, of the disk that is open,
    /// whatever has its name by now.
    pub fn diskseq(&self) -> Option<u64> {
        ioctl::disk_sequence(&self.file).ok()
    }

    /// Writes `range`, at most [`CHUNK`] bytes, with what `fill` puts into them.
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

    /// Makes `range`, at most [`CHUNK`] bytes, read as zeros, and says who did it.
    ///
    /// Most devices do so by themselves, which takes no time (`REQ_OP_WRITE_ZEROES`). Many sticks
    /// and cards do not, and reading is what they are fast at: of those, only what is not zero yet
    /// is written.
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

    /// Makes writes in their order, each on the medium before the next begins.
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

    /// Comes back when all that was written is on the medium.
    pub fn flush(&self) -> Result<()> {
        self.file.sync_all().at("write", &self.path)
    }

    /// Has the kernel show the partitions that are there now, and says whether it still shows old
    /// ones, because they are in use. Of some devices it shows none.
    pub fn shows_old_partitions(&self) -> bool {
        ioctl::reread_partition_table(&self.file) == Err(Errno::BUSY)
    }
}

/// Whether all of the bytes, at most [`CHUNK`], are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    *bytes == ZEROS[..bytes.len()]
}

/// Memory that begins where direct reads and writes want it to.
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
