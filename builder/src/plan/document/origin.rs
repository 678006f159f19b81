//! The line on which a resolved value is written.

use std::collections::BTreeMap;
use std::fmt;

/// A line of a file of the project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The file, relative to the project.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

/// The line of each value of a plan, by its dotted name in the printed plan:
/// `kernel.options.EROFS_FS`.
pub type Origins = BTreeMap<String, Origin>;

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
