//! Ends in order, as a well-behaved program does.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use signal_hook::flag;

/// The file from which the kubelet takes a container's last words.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Waits for SIGTERM, and writes its last words.
pub fn on_request() -> io::Result<()> {
    let requested = Arc::new(AtomicBool::new(false));
    flag::register(SIGTERM, Arc::clone(&requested))?;
    while !requested.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(50));
    }
    fs::write(TERMINATION_LOG, "ended in order")
}
