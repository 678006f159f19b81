//! The newest metadata versions seen of a repository; older metadata are refused.
//!
//! `tough` forgets what it has seen on each read that leads from the trusted root to one with other
//! keys. Without this file, an old repository would be accepted as soon as a key was rotated, and
//! so would one that hides the rotation. A node's updater remembers the same.

use super::root::Root;
use super::writer::replace;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use osbuild_release::Newest;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How many digits of the first root's digest are in the name of the file.
const DIGITS: usize = 16;

/// Refuses versions older than those that the folder `memory` has for the repository with this
/// first root, and records newer ones.
///
/// # Errors
/// They are older (`Kind::Digest`), or the file cannot be read or written.
pub(super) fn advance(newest: Newest, memory: &Path, first: &Root) -> Result<()> {
    let path = file(memory, first);
    let is_newer = match read(&path)? {
        Some(before) => {
            newest.is_newer_than(before).map_err(|older| Error::digest(older.to_string()))?
        }
        None => true,
    };
    if is_newer { replace(&path, format!("{newest}\n").as_bytes()) } else { Ok(()) }
}

/// The file for the repositories with this first root.
fn file(memory: &Path, first: &Root) -> PathBuf {
    memory.join(format!("newest-{}", &Digest::of(&first.bytes).hex()[..DIGITS]))
}

/// The versions in the file; `None` if there is no file yet.
///
/// # Errors
/// The file is damaged: it was the only proof of what was seen.
fn read(path: &Path) -> Result<Option<Newest>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.at("read", path)?,
    };
    text.parse().map(Some).map_err(|_| {
        Error::build(format!("`{}` is damaged", path.display()))
            .hint("remove it to forget which versions were seen")
    })
}
