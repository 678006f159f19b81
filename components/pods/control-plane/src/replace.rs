//! Files that other programs read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Replaces a file, so that a power cut leaves the old one or the new one.
///
/// # Errors
/// It cannot be written.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut options = OpenOptions::new();
    let mut to = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    to.write_all(text.as_bytes())?;
    to.sync_all()?;
    fs::rename(&new, file)
}
