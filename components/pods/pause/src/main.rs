//! PID 1 of a pod's sandbox: it holds the pod's namespaces open and reaps what is orphaned into
//! them.
//!
//! It ends with status 0 on SIGTERM and SIGINT. It allocates nothing and prints nothing, so that
//! the one process that every pod has costs as little memory as a process can: `main` is C's,
//! without the start-up code of `std`.

#![no_main]

use std::ffi::{c_char, c_int};
use std::{mem, ptr};

/// Waits for signals until one says to end.
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

/// Blocks the signals that end the pod or tell of an ended child, and returns them for
/// `sigwaitinfo`. A PID 1 gets no signal that it neither handles nor blocks, so this also is what
/// makes SIGTERM arrive.
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

/// Reaps every child that has ended: one SIGCHLD can stand for several.
fn reap() {
    // SAFETY: a null status pointer is allowed, and WNOHANG makes the call return at once.
    while unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) } > 0 {}
}
