//! The calls without a safe wrapper. All `unsafe` of this crate is here.

use std::ffi::c_long;
use std::time::Duration;
use std::{io, mem};

use crate::discipline::Adjustment;

/// Whether the kernel considers the clock synchronized. After boot it does not, and it stops doing
/// so some nine hours after the last adjustment.
pub fn clock_is_right() -> bool {
    // SAFETY: `timex` is plain numbers, for which zero is valid. Its mode is zero, so nothing is
    // changed.
    let mut request: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: the request is a whole `timex`, which the call reads and writes.
    let state = unsafe { libc::adjtimex(&mut request) };
    state >= 0 && request.status & libc::STA_UNSYNC == 0
}

/// Adjusts the system clock. Needs `SYS_TIME`.
pub fn adjust(adjustment: Adjustment) -> io::Result<()> {
    let mut request = request(adjustment);
    // SAFETY: the request is a whole `timex`, which the call reads and writes.
    match unsafe { libc::adjtimex(&mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Converts an adjustment for the kernel. A slew uses its phase-locked loop, which also learns the
/// clock's drift. Both mark the clock as synchronized, so that the kernel copies it to the hardware
/// clock (every eleven minutes). Both are in nanoseconds, by which `osd` knows later that the clock
/// was set.
fn request(adjustment: Adjustment) -> libc::timex {
    // SAFETY: `timex` is plain numbers, for which zero is valid.
    let mut request: libc::timex = unsafe { mem::zeroed() };
    request.modes = libc::ADJ_STATUS | libc::ADJ_NANO | libc::ADJ_MAXERROR | libc::ADJ_ESTERROR;
    match adjustment {
        Adjustment::Step(offset) => {
            request.modes |= libc::ADJ_SETOFFSET;
            // The fraction must not be negative; with ADJ_NANO it is in nanoseconds.
            request.time.tv_sec = offset.div_euclid(1_000_000);
            request.time.tv_usec = offset.rem_euclid(1_000_000) * 1000;
        }
        Adjustment::Slew(offset, interval) => {
            request.modes |= libc::ADJ_OFFSET | libc::ADJ_TIMECONST;
            request.status = libc::STA_PLL;
            request.offset = offset * 1000;
            request.constant = time_constant(interval);
        }
    }
    request
}

/// The loop's time constant for a polling interval: its binary logarithm minus four (RFC 5905,
/// 11.3, in the kernel's scale).
fn time_constant(interval: Duration) -> c_long {
    c_long::from(interval.as_secs().max(16).ilog2() - 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_has_a_positive_fraction() {
        let request = request(Adjustment::Step(-1_250_000));
        assert_eq!((request.time.tv_sec, request.time.tv_usec), (-2, 750_000_000));
        assert_eq!(request.modes & libc::ADJ_SETOFFSET, libc::ADJ_SETOFFSET);
        assert_eq!(request.modes & libc::ADJ_OFFSET, 0);
    }

    #[test]
    fn a_slew_is_in_nanoseconds_and_paced_by_the_interval() {
        let request = request(Adjustment::Slew(-1500, Duration::from_secs(1024)));
        assert_eq!(
            (request.offset, request.constant, request.status),
            (-1_500_000, 6, libc::STA_PLL)
        );
        assert_eq!(request.modes & libc::ADJ_SETOFFSET, 0);
    }

    #[test]
    fn both_adjustments_mark_the_clock_as_synchronized() {
        for adjustment in [Adjustment::Step(1), Adjustment::Slew(1, Duration::from_secs(64))] {
            let request = request(adjustment);
            assert_eq!(request.modes & libc::ADJ_STATUS, libc::ADJ_STATUS);
            assert_eq!(request.status & 0x40, 0, "STA_UNSYNC");
            assert_eq!(request.modes & libc::ADJ_NANO, libc::ADJ_NANO);
        }
    }
}
