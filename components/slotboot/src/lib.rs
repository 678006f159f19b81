//! What the firmware starts. It finds the disk that it was loaded from, and boots a slot of it by
//! the rules of `osbuild_slots`.
//!
//! It reads nothing but the partition table and slots, has no menu, no input and no settings, and
//! where nothing can be started it says so and stands still: a machine that stopped is found, one
//! that restarts for ever is not.

#![no_std]

extern crate alloc;

mod clock;
mod disk;
mod firmware;
mod floor;
mod memory;

use core::fmt::Display;
use core::time::Duration;

use osbuild_abi::console::{SLOTBOOT, SLOTBOOT_STOPPED};
use uefi::boot::{self, EventType, TimerTrigger, Tpl};
use uefi::println;

use crate::clock::Clock;
use crate::disk::Disk;
use crate::firmware::Firmware;

/// Seconds after which the firmware restarts a machine that hangs before the kernel has taken it
/// over: as many as the firmware itself gives a program (UEFI 2.10, 7.5.1). They begin anew when
/// the UKI starts.
const WATCHDOG: usize = 300;
/// The watchdog's code in the firmware's log: the first that is a program's own.
const WATCHDOG_CODE: u64 = 0x1_0000;

/// Boots the machine.
pub fn run() -> ! {
    let clock = Clock::start();
    watch(WATCHDOG);
    match Disk::booted() {
        Ok(disk) => stop(osbuild_slots::boot(&mut Firmware::new(disk, clock))),
        Err(why) => stop(why),
    }
}

/// Sets the firmware's watchdog, which ends when the kernel takes the machine over. 0 is none.
fn watch(seconds: usize) {
    // A machine without a watchdog boots as well.
    let _ = boot::set_watchdog_timer(seconds, WATCHDOG_CODE, None);
}

/// Writes a line on the console.
fn say(line: impl Display) {
    println!("{SLOTBOOT}{line}");
}

/// Says why nothing can be started, and stands still until somebody switches the machine off.
pub fn stop(why: impl Display) -> ! {
    println!("{SLOTBOOT_STOPPED}{why}");
    watch(0);
    // SAFETY: a timer event without a function to be called asks for nothing that could go wrong.
    let timer = unsafe { boot::create_event(EventType::TIMER, Tpl::APPLICATION, None, None) };
    loop {
        match &timer {
            Ok(timer)
                if boot::set_timer(timer, TimerTrigger::Relative(Duration::from_secs(3600)))
                    .is_ok() =>
            {
                // Sleeps: a machine that stopped need not be warm.
                let _ = boot::wait_for_event(core::slice::from_ref(timer));
            }
            _ => boot::stall(Duration::from_secs(1)),
        }
    }
}
