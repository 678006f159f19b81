//! `slotboot`: the program at the removable path of the EFI system partition. See the library for
//! what it does.

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

/// Only firmware can start it. The workspace's tools compile it for the build machine as well.
#[cfg(not(target_os = "uefi"))]
fn main() {}
