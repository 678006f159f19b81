//! Where a resolved value was written.

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

/// Where each value of a plan was written, by its dotted name as in the printed plan:
/// `kernel.options.EROFS_FS`.
pub type Origins = BTreeMap<String, Origin>;

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
