//! PID 1 of a pod's sandbox: it keeps the pod's namespaces open and reaps orphaned processes.
//!
//! It exits with status 0 on SIGTERM and SIGINT. Every pod has this process, so it uses as little
//! memory as a process can: it allocates nothing, prints nothing, and defines C's `main` to avoid
//! the start-up code of `std`.

#![no_main]

use std::ffi::{c_char, c_int};
use std::{mem, ptr};

/// Waits for signals until SIGTERM or SIGINT.
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    let signals = block_signals();
    loop {
        // SAFETY: `signals` is an initialised set, and a null second argument asks for no details.
        match unsafe { libc::sigwaitinfo(&signals, ptr::null_mut()) } {
            libc::SIGTERM | libc::SIGINT => return 0,
            libc::SIGCHLD => reap(),
            // EINTR: the process was stopped and continued.
            _ => {}
        }
    }
}

/// Blocks the signals that end the pod or report an ended child, and returns them for
/// `sigwaitinfo`. The kernel drops signals that PID 1 neither handles nor blocks, so without this
/// SIGTERM would be lost.
fn block_signals() -> libc::sigset_t {
    // SAFETY: the set is plain data that `sigemptyset` initialises before anything reads it; all
    // pointers are to locals. None of these calls can fail with these signal numbers.
    unsafe {
        let mut signals = mem::zeroed();
        libc::sigemptyset(&mut signals);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD] {
            libc::sigaddset(&mut signals, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
        signals
    }
}

/// Reaps every child that has ended: one SIGCHLD can mean several.
fn reap() {
    // SAFETY: a null status pointer is allowed, and WNOHANG makes the call return at once.
    while unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) } > 0 {}
}
