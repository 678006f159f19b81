//! Polling for a condition of the cluster.

use osbuild::engine::stop;
use osbuild::error::Result;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The result of one poll.
pub enum Seen<T> {
    /// The condition holds.
    Yes(T),
    /// The condition does not hold yet, and the reason.
    NotYet(String),
}

/// Calls `look` until the condition holds, at most for `timeout`; then returns the last reason.
///
/// # Errors
/// `look` failed, or the user wants to stop.
pub fn wait<T>(
    timeout: Duration,
    mut look: impl FnMut() -> Result<Seen<T>>,
) -> Result<std::result::Result<T, String>> {
    let end = Instant::now() + timeout;
    loop {
        stop::check()?;
        match look()? {
            Seen::Yes(found) => return Ok(Ok(found)),
            Seen::NotYet(why) if Instant::now() > end => return Ok(Err(why)),
            Seen::NotYet(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}
