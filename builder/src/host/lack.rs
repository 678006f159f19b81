//! A problem with a required tool.

/// A problem with a tool, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The problem, in one line.
    pub problem: String,
    /// The tool's own output, if it was started.
    pub cause: Option<String>,
    /// The remedy.
    pub remedy: String,
}
