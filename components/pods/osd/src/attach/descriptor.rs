//! A pipe or terminal that is read and written without blocking.

use crate::inspect::sys::registered;
use rustix::io::{Errno, ioctl_fionbio, read, write};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

/// An end of a pipe, or the side of a terminal that a program controls. Clones are of the same one.
#[derive(Clone, Debug)]
pub struct Descriptor(Arc<AsyncFd<OwnedFd>>);

impl Descriptor {
    /// There has to be a runtime.
    pub fn new(descriptor: OwnedFd) -> io::Result<Descriptor> {
        ioctl_fionbio(&descriptor, true)?;
        Ok(Descriptor(Arc::new(registered(descriptor)?)))
    }

    /// The descriptor.
    pub fn get(&self) -> &OwnedFd {
        self.0.get_ref()
    }

    /// Reads at least a byte. Returns 0 at the end. Dropping the future loses no byte.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|descriptor| Ok(read(descriptor.get_ref(), &mut *buffer)?)) {
                // Of a terminal that no program has open any more.
                Ok(Err(error)) if Errno::from_io_error(&error) == Some(Errno::IO) => return Ok(0),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(outcome) => return outcome,
                Err(_) => {}
            }
        }
    }

    /// Writes all of it.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.0.writable().await?;
            match ready.try_io(|descriptor| Ok(write(descriptor.get_ref(), bytes)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(written) => bytes = &bytes[written?..],
                Err(_) => {}
            }
        }
        Ok(())
    }
}
