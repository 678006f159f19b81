//! The texts that a plan is made of, read by somebody else.

use crate::error::Problem;
use std::collections::BTreeMap;

/// Files of the project by their path relative to it, with `/` between its parts: `recipes/node.toml`.
///
/// What a plan reads: `recipes/*.toml`, `boards/*.toml`, everything below `components/` and `recipes/` that they name, `Cargo.toml`,
/// `Cargo.lock`, `Cargo.toml` of each member and `rust-toolchain.toml`. Big files that are only named (an OCI archive) need not be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// The files.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Project {
    /// The text of a file, if it exists. Bytes that are not UTF-8 are a problem and no text.
    pub(super) fn text(&self, path: &str, problems: &mut Vec<Problem>) -> Option<&str> {
        let bytes = self.files.get(path)?;
        std::str::from_utf8(bytes)
            .inspect_err(|error| problems.push(Problem::new(format!("`{path}` is not UTF-8")).cause(error)))
            .ok()
    }

    /// Whether there is such a file.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }
}
