//! The line on which a resolved value is written.

use std::collections::BTreeMap;
use std::fmt;

/// The file of a value that the command line sets.
pub const COMMAND_LINE: &str = "--set";

/// A line of a file of the project, or the command line.
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
        match self.file.as_str() {
            COMMAND_LINE => f.write_str(COMMAND_LINE),
            file => write!(f, "{file}:{}", self.line),
        }
    }
}
