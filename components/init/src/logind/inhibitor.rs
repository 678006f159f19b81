//! A lock that delays a shutdown.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// A lock: the reading end of a pipe.
pub struct Inhibitor {
    /// The name that its client gave itself.
    pub who: String,
    pipe: OwnedFd,
}

impl Inhibitor {
    /// Makes a lock. Its client gets the other end of the pipe.
    pub fn new(who: String) -> io::Result<(Self, OwnedFd)> {
        let (pipe, given) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok((Inhibitor { who, pipe }, given))
    }

    /// The descriptor that becomes readable when the lock is given up.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Whether a process has the other end. Bytes that a client writes are dropped.
    pub fn is_held(&self) -> bool {
        let mut buffer = [0; 4096];
        match rustix::io::read(&self.pipe, &mut buffer) {
            Ok(length) => length > 0,
            Err(errno) => errno == Errno::AGAIN || errno == Errno::INTR,
        }
    }
}
