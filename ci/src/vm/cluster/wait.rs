//! Waiting for something that others do.

use osbuild::error::Result;
use std::time::{Duration, Instant};

/// How often somebody looks.
const TICK: Duration = Duration::from_millis(500);

/// What a look has found.
pub enum Seen<T> {
    /// What was waited for.
    Yes(T),
    /// Why it is not so yet.
    NotYet(String),
}

/// Looks until it is so, at most for `timeout`; then it gives why it was not so at the last look.
///
/// # Errors
/// A look itself has failed.
pub fn wait<T>(
    timeout: Duration,
    mut look: impl FnMut() -> Result<Seen<T>>,
) -> Result<std::result::Result<T, String>> {
    let end = Instant::now() + timeout;
    loop {
        match look()? {
            Seen::Yes(found) => return Ok(Ok(found)),
            Seen::NotYet(why) if Instant::now() > end => return Ok(Err(why)),
            Seen::NotYet(_) => std::thread::sleep(TICK),
        }
    }
}
