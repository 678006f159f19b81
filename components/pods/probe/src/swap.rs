//! Turns swap off behind the back of the program that has turned it on.

use std::fs;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::sys::swapoff;

/// The kernel's table of swaps.
const TABLE: &str = "/proc/swaps";
/// How long the swap may be off.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before the table is read again.
const PAUSE: Duration = Duration::from_millis(5);

/// Turns the swap on this device off, by its path below the host's root, and waits until it is on
/// again. Returns how long that took.
pub fn turn_off(root: &Path, device: &str) -> io::Result<Duration> {
    swapoff(&root.join(device.trim_start_matches('/')))?;
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        let table = fs::read_to_string(TABLE)?;
        if table.lines().any(|line| line.split_whitespace().next() == Some(device)) {
            return Ok(began.elapsed());
        }
        sleep(PAUSE);
    }
    Err(io::Error::other(format!("the swap on `{device}` stays off")))
}
