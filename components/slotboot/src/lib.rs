//! The program that the firmware starts. It finds the disk that it was loaded from, and boots one
//! of its slots according to the rules of `osbuild_slots`.
//!
//! It reads only the partition table and the slots, and has no menu, input or settings. If nothing
//! can be started it prints why and halts, because a halted machine is noticed sooner than one that
//! restarts forever.

#![no_std]

extern crate alloc;

mod boot_disk;
mod clock;
mod console;
mod firmware;
mod floor;
mod memory;

use core::fmt::Display;
use core::time::Duration;

use osbuild_abi::console::{SLOTBOOT, SLOTBOOT_STOPPED};
use uefi::boot::{self, EventType, TimerTrigger, Tpl};

use crate::boot_disk::BootDisk;
use crate::clock::Clock;
use crate::firmware::Firmware;

/// Seconds until the firmware resets a machine that hangs before the kernel takes over: the
/// firmware's own default (UEFI 2.10, 7.5.1). They restart when the UKI starts.
const WATCHDOG: usize = 300;
/// The watchdog's code in the firmware's log: the first one for programs.
const WATCHDOG_CODE: u64 = 0x1_0000;

/// Boots the machine.
pub fn run() -> ! {
    let clock = Clock::start();
    set_watchdog(WATCHDOG);
    match BootDisk::booted() {
        Ok(disk) => stop(osbuild_slots::boot(&mut Firmware::new(disk, clock))),
        Err(why) => stop(why),
    }
}

/// Sets the firmware's watchdog, which stops when the kernel takes over. 0 disables it.
fn set_watchdog(seconds: usize) {
    // A machine without a watchdog also boots.
    let _ = boot::set_watchdog_timer(seconds, WATCHDOG_CODE, None);
}

/// Prints a line to the console.
fn print(line: impl Display) {
    console::line(format_args!("{SLOTBOOT}{line}"));
}

/// Prints why nothing can be started, and halts until the machine is switched off.
pub fn stop(why: impl Display) -> ! {
    console::line(format_args!("{SLOTBOOT_STOPPED}{why}"));
    set_watchdog(0);
    // SAFETY: a timer event without a callback has no other requirements.
    let timer = unsafe { boot::create_event(EventType::TIMER, Tpl::APPLICATION, None, None) };
    loop {
        match &timer {
            Ok(timer)
                if boot::set_timer(timer, TimerTrigger::Relative(Duration::from_secs(3600)))
                    .is_ok() =>
            {
                // Sleep, so that a halted machine stays cool.
                let _ = boot::wait_for_event(core::slice::from_ref(timer));
            }
            _ => boot::stall(Duration::from_secs(1)),
        }
    }
}
