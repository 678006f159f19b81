//! A file mapped into memory. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The first bytes of a file or a device. The kernel reads them on access and can reclaim them, so
/// that a UKI of 70 MB does not count against the pod's memory limit.
pub struct Mapped {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Mapped {
    /// Maps `length` bytes. The file must have that many, and must not change while it is mapped.
    pub fn new(file: impl AsFd, length: usize) -> io::Result<Mapped> {
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
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
        // at a time, and this client does not write while it reads. A read error of the medium
        // kills the process with SIGBUS, and the kubelet restarts it.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly these bytes, and no slice of them outlives `self`. `munmap`
        // does not fail for a whole mapping.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}
