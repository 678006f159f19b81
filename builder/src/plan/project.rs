//! The texts that a plan is made of, read by somebody else.

use crate::error::Problem;
use std::collections::{BTreeMap, BTreeSet};

/// Files of the project by their path relative to it, with `/` between its parts:
/// `recipes/node.toml`.
///
/// A plan reads `recipes/`, `boards/` and `components/` with all that lies below them, `Cargo.lock`
/// and `rust-toolchain.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// Files with what they hold.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files that are too big to be anything but named: a plan says that they exist and no more.
    pub big: BTreeSet<String>,
}

impl Project {
    /// The text of a file, if it exists. Bytes that are not UTF-8 are a problem and no text.
    pub(super) fn text(&self, path: &str, problems: &mut Vec<Problem>) -> Option<&str> {
        if self.big.contains(path) {
            problems.push(Problem::new(format!("`{path}` is too big to be read")));
        }
        let bytes = self.files.get(path)?;
        std::str::from_utf8(bytes)
            .inspect_err(|error| {
                problems.push(Problem::new(format!("`{path}` is not UTF-8")).cause(error))
            })
            .ok()
    }

    /// The path of every file, whatever its size.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().chain(&self.big).map(String::as_str)
    }

    /// Whether there is such a folder with a file in it.
    pub(super) fn has_folder(&self, path: &str) -> bool {
        self.paths().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Whether there is such a file.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.big.contains(path)
    }
}
