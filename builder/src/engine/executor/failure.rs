//! Explains why an action failed, with a hint where there is a remedy.

use super::log::Log;
use super::process::Ended;
use crate::engine::fs_error;
use crate::engine::shortage::Shortage;
use crate::error::{Error, Result};
use std::path::Path;

/// The exit status with which a shell, and bubblewrap, report a killed process.
const KILLED_STATUS: i32 = 128 + 9;

/// Phrases that bubblewrap prints when the system forbids sandboxes.
const FORBIDDEN: [&str; 3] = [
    "No permissions to create new namespace",
    "setting up uid map",
    "Creating new namespace failed",
];

/// Checks the exit status of the action `name`, which wrote below `scratch`.
///
/// # Errors
/// It is not 0. The error shows the end of the log.
pub(super) fn check(name: &str, ended: &Ended, log: &Log<'_>, scratch: &Path) -> Result<()> {
    if ended.status == Some(0) {
        return Ok(());
    }
    Err(explain(name, ended, log, scratch).log(log.tail()))
}

fn explain(name: &str, ended: &Ended, log: &Log<'_>, scratch: &Path) -> Error {
    let shortage = Shortage::of(log.lines());
    if shortage == Some(Shortage::Disk) {
        return fs_error::full(scratch).cause(format!("`{name}` failed"));
    }
    if ended.status.is_none_or(|status| status == KILLED_STATUS)
        || shortage == Some(Shortage::Memory)
    {
        return Error::build(format!(
            "`{name}` was killed, most likely because the memory ran out"
        ))
        .hint("give the machine more memory, or run the same command again with `--jobs 1`");
    }
    if log.contains("bwrap: ") && FORBIDDEN.iter().any(|phrase| log.contains(phrase)) {
        return Error::build("this system does not let bubblewrap make a sandbox")
            .cause(format!("`{name}` was not started"))
            .hint("`cargo osbuild doctor` explains why");
    }
    Error::build(format!("`{name}` failed"))
        .cause(format!("it ended with exit status {}", ended.status.unwrap_or_default()))
}
