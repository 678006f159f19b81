//! Requests to stop: the user's Ctrl-C, the system's SIGTERM, or a step of the same build that
//! panicked.

use crate::error::{Context, Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Set by the signal handler. It is global because signals are delivered to the process.
static SIGNALLED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn signalled() -> &'static Arc<AtomicBool> {
    SIGNALLED.get_or_init(Arc::default)
}

/// Turns the first SIGINT or SIGTERM into a request that every step sees, and the second one into
/// an immediate exit with code 130. The program calls this once; a library must not.
///
/// # Errors
/// A handler cannot be installed.
pub fn on_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(signalled()))
            .and_then(|_| flag::register(signal, Arc::clone(signalled())))
            .or_build(|| format!("cannot handle signal {signal}"))?;
    }
    Ok(())
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
