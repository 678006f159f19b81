//! `slotboot`: the program at the removable-media path of the EFI system partition. The library
//! documents it.

#![cfg_attr(target_os = "uefi", no_main, no_std)]

#[cfg(target_os = "uefi")]
#[uefi::entry]
fn main() -> uefi::Status {
    slotboot::run()
}

#[cfg(target_os = "uefi")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    slotboot::stop(info)
}

/// Only firmware can start the program. The workspace's tools compile it for the build machine as
/// well.
#[cfg(not(target_os = "uefi"))]
fn main() {}
