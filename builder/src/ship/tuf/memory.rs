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
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How many digits of the first root's digest are in the name of the file.
const DIGITS: usize = 16;

/// The versions of the root and timestamp metadata. A new root may have new keys, so the version of
/// the timestamp may restart with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Newest {
    /// The version of the root.
    pub root: u64,
    /// The version of the timestamp.
    pub timestamp: u64,
}

impl Newest {
    /// Refuses versions older than those that the folder `memory` has for the repository with this
    /// first root, and records newer ones.
    ///
    /// # Errors
    /// They are older (`Kind::Digest`), or the file cannot be read or written.
    pub fn advance(self, memory: &Path, first: &Root) -> Result<()> {
        let path = file(memory, first);
        match read(&path)? {
            Some(before) if self.root < before.root => Err(Error::digest(format!(
                "the repository has keys of version {}, which version {} has replaced",
                self.root, before.root
            ))),
            Some(before) if self < before => Err(Error::digest(format!(
                "the repository's metadata have version {}, older than version {} seen before",
                self.timestamp, before.timestamp
            ))),
            Some(before) if self == before => Ok(()),
            _ => replace(&path, format!("{} {}\n", self.root, self.timestamp).as_bytes()),
        }
    }
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
    let parsed = text.trim_end().split_once(' ').and_then(|(root, timestamp)| {
        Some(Newest { root: root.parse().ok()?, timestamp: timestamp.parse().ok()? })
    });
    parsed.map(Some).ok_or_else(|| {
        Error::build(format!("`{}` is damaged", path.display()))
            .hint("remove it to forget which versions were seen")
    })
}
