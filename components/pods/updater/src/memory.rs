//! A file in memory as bytes. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The first bytes of a file or a device, read by the kernel when they are looked at: so a UKI of
/// 70 MB takes no memory that the kernel could not have back.
pub struct Mapped {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Mapped {
    /// Maps `length` bytes, which the file must have, and which nobody may change meanwhile.
    pub fn new(file: impl AsFd, length: usize) -> io::Result<Mapped> {
        // SAFETY: the kernel chooses the place, so nothing that is in use is mapped over.
        let start = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0)?
        };
        Ok(Mapped { start, length })
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped until `self` is dropped. `init` gives the slot to one client
        // at a time, and this one does not write while it reads. A medium that cannot be read ends
        // the process, which is started anew.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped exactly this, and no slice of it outlives `self`. It fails for
        // no mapping.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}
