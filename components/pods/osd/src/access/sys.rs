//! The system call for which there is no safe function. The others of this crate are in
//! [`inspect`](crate::inspect).

#![allow(unsafe_code)]

use std::mem;

/// Returns whether the kernel considers the clock synchronized, as it does once the pod `time` has
/// set it.
pub fn clock_is_synchronized() -> bool {
    // SAFETY: `timex` is plain numbers, for which zero is valid. Its mode is zero, so nothing is
    // changed.
    let mut request: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: the request is a whole `timex`, which the call reads and writes.
    let state = unsafe { libc::adjtimex(&mut request) };
    // A call that fails leaves no reason to accept what is not valid yet.
    state < 0 || request.status & libc::STA_UNSYNC == 0
}
