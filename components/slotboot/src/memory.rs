//! Memory for a UKI: whole pages, whose old content nobody clears, as the disk is read over it.

use core::ptr::NonNull;
use core::slice;

use uefi::boot::{self, AllocateType, MemoryType, PAGE_SIZE};

/// Some pages of the firmware's memory. Dropping them gives them back.
pub struct Pages {
    start: NonNull<u8>,
    size: usize,
}

impl Pages {
    /// Memory of at least this size; none if the firmware has not got that much.
    pub fn new(size: usize) -> Option<Pages> {
        let start = boot::allocate_pages(
            AllocateType::AnyPages,
            MemoryType::LOADER_DATA,
            size.div_ceil(PAGE_SIZE),
        );
        Some(Pages { start: start.ok()?, size })
    }
}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the firmware has given us these bytes, which all have some value, until they are
        // given back.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }
}

impl AsMut<[u8]> for Pages {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is the only way to them.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: these pages were allocated as one, and nothing refers to them any more. If that
        // fails they are only lost.
        let _ = unsafe { boot::free_pages(self.start, self.size.div_ceil(PAGE_SIZE)) };
    }
}
