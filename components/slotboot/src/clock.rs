//! Durations from the processor's counter, because the firmware's clock is too coarse.

use core::time::Duration;

/// A clock.
#[derive(Clone, Copy)]
pub struct Clock {
    started: u64,
    /// Counts per second.
    frequency: u64,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Clock {
        let started = counter();
        Clock { started, frequency: frequency().max(1) }
    }

    /// The time since the clock showed `before`; zero if the counter stepped back, as those of some
    /// processors do.
    pub fn since(&self, before: Duration) -> Duration {
        self.elapsed().saturating_sub(before)
    }

    /// The time since it was started.
    pub fn elapsed(&self) -> Duration {
        let ticks = u128::from(counter().saturating_sub(self.started));
        Duration::from_nanos((ticks * 1_000_000_000 / u128::from(self.frequency)) as u64)
    }
}

/// The counter.
#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every 64-bit x86 processor has this counter, and reading it changes nothing.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Measures the counter against the firmware's millisecond, because not every processor reports its
/// frequency. A virtual machine may be paused in between, so this takes the shortest of several
/// measurements; a zero is a counter that stepped back.
#[cfg(target_arch = "x86_64")]
fn frequency() -> u64 {
    let count = || {
        let start = counter();
        uefi::boot::stall(Duration::from_millis(1));
        counter().saturating_sub(start)
    };
    (0..8).map(|_| count()).filter(|count| *count > 0).min().unwrap_or_default() * 1000
}

/// The counter.
#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let count: u64;
    // SAFETY: the generic timer's counter can be read at every level that runs UEFI programs, and
    // reading it changes nothing.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
    count
}

/// Reads the frequency from the processor.
#[cfg(target_arch = "aarch64")]
fn frequency() -> u64 {
    let frequency: u64;
    // SAFETY: as for the counter itself.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
    frequency
}
