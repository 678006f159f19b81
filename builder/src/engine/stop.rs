//! The wish to stop: the user's Ctrl-C, the system's SIGTERM, or a step beside this one that broke.

use crate::error::{Context, Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Set by the signal handler. Signals belong to the process, and so does this.
static SIGNALLED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn signalled() -> &'static Arc<AtomicBool> {
    SIGNALLED.get_or_init(Arc::default)
}

/// Makes the first SIGINT or SIGTERM a wish that every step sees, and the second one an end at
/// once, with exit code 130. To be called once, by the program and not by a library.
pub fn on_signals() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(signalled()))
            .and_then(|_| flag::register(signal, Arc::clone(signalled())))
            .or_build(|| format!("cannot handle signal {signal}"))?;
    }
    Ok(())
}

/// An error when the user wants to stop. Whatever waits asks this now and then.
pub fn check() -> Result<()> {
    if signalled().load(Ordering::Relaxed) { Err(Error::stopped()) } else { Ok(()) }
}

/// The wish that some steps stop, because one of them broke or because the user says so.
#[derive(Clone, Default)]
pub struct Stop {
    wished: Arc<AtomicBool>,
}

impl Stop {
    /// Wishes it.
    pub fn set(&self) {
        self.wished.store(true, Ordering::Relaxed);
    }

    /// Whether anybody wishes it.
    pub fn is_set(&self) -> bool {
        self.wished.load(Ordering::Relaxed) || check().is_err()
    }

    /// An error when anybody wishes it.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::stopped()) } else { Ok(()) }
    }
}
