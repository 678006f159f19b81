//! Requests to stop: the user's Ctrl-C, the system's SIGTERM, a terminal that is closed, or a step
//! of the same build that panicked.

use crate::error::{Context, Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Set by the signal handler. It is global because signals are delivered to the process.
static SIGNALLED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn signalled() -> &'static Arc<AtomicBool> {
    SIGNALLED.get_or_init(Arc::default)
}

/// Turns the first SIGINT or SIGTERM into a request that every step sees, and the second one into
/// an immediate exit with code 130. SIGHUP is only a request, because a shell and the kernel both
/// send it when a terminal is closed. nohup(1) has it ignored, which stays so. The program calls
/// this once; a library must not.
///
/// # Errors
/// A handler cannot be installed.
pub fn on_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(signalled()))
            .and_then(|_| flag::register(signal, Arc::clone(signalled())))
            .or_build(|| format!("cannot handle signal {signal}"))?;
    }
    if !is_ignored(SIGHUP) {
        flag::register(SIGHUP, Arc::clone(signalled()))
            .or_build(|| format!("cannot handle signal {SIGHUP}"))?;
    }
    Ok(())
}

/// Whether the process was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros are a valid `sigaction`, and without a new action the call only writes to
    // `action`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// An error once the user has asked to stop. Everything that waits calls this repeatedly.
pub fn check() -> Result<()> {
    if signalled().load(Ordering::Relaxed) { Err(Error::stopped()) } else { Ok(()) }
}

/// A request to the steps of one build to stop. The user's request counts for every build.
#[derive(Clone, Default)]
pub struct Stop {
    requested: Arc<AtomicBool>,
}

impl Stop {
    /// Requests it.
    pub fn set(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Whether it is requested.
    pub fn is_set(&self) -> bool {
        self.requested.load(Ordering::Relaxed) || check().is_err()
    }

    /// An error once it is requested.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::stopped()) } else { Ok(()) }
    }
}
