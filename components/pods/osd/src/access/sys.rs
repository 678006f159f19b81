//! The system call for which there is no safe function. The others of this crate are in
//! [`inspect`](crate::inspect).

#![allow(unsafe_code)]

use libc::{STA_NANO, STA_PLL, STA_UNSYNC, c_int};
use std::mem;

/// Returns whether a server has set the clock since the boot, as the pod `time` does.
pub fn clock_is_synchronized() -> bool {
    // SAFETY: `timex` is plain numbers, for which zero is valid. Its mode is zero, so nothing is
    // changed.
    let mut request: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: the request is a whole `timex`, which the call reads and writes.
    let state = unsafe { libc::adjtimex(&mut request) };
    // A call that fails leaves no reason to accept what is not valid yet.
    state < 0 || was_set(request.status)
}

/// Whether a clock with this status was set. Nine hours after the last adjustment the kernel counts
/// it as unsynchronized again, although it is still right to seconds. The marks of an adjustment
/// stay: each one by the pod `time` is in nanoseconds, and other programs use the loop.
fn was_set(status: c_int) -> bool {
    status & STA_UNSYNC == 0 || status & (STA_NANO | STA_PLL) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_stays_so_without_a_server() {
        assert!(!was_set(STA_UNSYNC), "after the boot");
        for adjusted in [STA_NANO, STA_NANO | STA_PLL, STA_PLL] {
            assert!(was_set(adjusted) && was_set(adjusted | STA_UNSYNC), "{adjusted}");
        }
    }
}
