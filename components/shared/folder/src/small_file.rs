//! Reads small files that pods may have written.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use osbuild_failure::{Explain, Failure, Outcome};
use rustix::fs::OFlags;

/// The largest file that is read, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// The text of a regular file, if it is there.
pub fn read(path: &Path) -> Outcome<Option<String>> {
    let bytes = read_bytes(path)?;
    let text = bytes.map(String::from_utf8).transpose();
    text.explain(format_args!("read {}", path.display()))
}

/// The bytes of a regular file, if it is there.
pub fn read_bytes(path: &Path) -> Outcome<Option<Vec<u8>>> {
    let what = || format!("read {}", path.display());
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        about => about.explain(what())?,
    };
    if !about.is_file() {
        return Err(Failure::new(format!("{} is not a file", path.display())));
    }
    // It may have become a FIFO by now, and opening must not wait.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .explain(what())?;
    let mut bytes = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut bytes).explain(what())?;
    Ok(Some(bytes))
}

/// The first line of an error that has several.
pub fn first_line(error: &str) -> Failure {
    Failure::new(error.lines().next().unwrap_or_default())
}
