//! `osbuild node`

use clap::Subcommand;
use std::path::PathBuf;

/// Verbs for the document in which a node's owner configures it.
#[derive(Debug, Subcommand)]
pub enum Node {
    /// Check a node document, and show all its mistakes at once
    ///
    /// The check is that of the node, and needs no project. Exits with 2 if there are mistakes.
    Check {
        /// The document
        file: PathBuf,
    },
    /// Print the JSON Schema of node documents, for use in an editor
    Schema,
}
