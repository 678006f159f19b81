//! Memory for a UKI: whole pages, which are not cleared because the UKI overwrites them.

use core::ptr::NonNull;
use core::slice;

use uefi::boot::{self, AllocateType, MemoryType, PAGE_SIZE};

/// Pages of the firmware's memory, freed on drop.
pub struct Pages {
    start: NonNull<u8>,
    size: usize,
}

impl Pages {
    /// Allocates at least this many bytes; `None` if the firmware does not have enough.
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
        // SAFETY: the firmware allocated these bytes, which are initialized, and they stay
        // allocated until the drop.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }
}

impl AsMut<[u8]> for Pages {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is the only reference.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: these pages were allocated together, and nothing refers to them any more. If this
        // fails, they only stay allocated.
        let _ = unsafe { boot::free_pages(self.start, self.size.div_ceil(PAGE_SIZE)) };
    }
}
