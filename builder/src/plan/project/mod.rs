//! The files that a plan is made of, which the caller reads, and how one inherits from another.

pub mod inherit;
mod overrides;

pub use overrides::Overrides;

use crate::error::Problem;
use std::collections::{BTreeMap, BTreeSet};

/// Files of the project by their path relative to it, with `/` between its parts:
/// `recipes/node.toml`.
///
/// A plan reads `recipes/`, `boards/` and `components/` with everything below them, `Cargo.lock`
/// and `rust-toolchain.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// Files with their content.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files that are too big to read: a plan only checks that they exist.
    pub big: BTreeSet<String>,
    /// Values that override those of every recipe.
    pub overrides: Overrides,
}

impl Project {
    /// The text of a file, if it exists. A file that is not UTF-8 is a problem.
    pub(super) fn text(&self, path: &str, problems: &mut Vec<Problem>) -> Option<&str> {
        if self.big.contains(path) {
            problems.push(Problem::new(format!("`{path}` is too big to read")));
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

    /// Whether a folder of this path has a file in it.
    pub(super) fn has_folder(&self, path: &str) -> bool {
        self.paths().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Whether a file of this path exists.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.big.contains(path)
    }
}
