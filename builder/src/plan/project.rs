//! The texts that a plan is made of, read by somebody else.

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
