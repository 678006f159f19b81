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
    /// Sign a node document with the release key, for a volume that machines read
    ///
    /// Writes an envelope (DSSE) with the document, which is the user data of a NoCloud volume or
    /// of a config drive. A node with `[volumes]` in its recipe accepts it if its root of trust
    /// names the key. Checks the document first.
    Sign {
        /// The document
        file: PathBuf,
        /// The keys whose release key signs it: a folder in `keys/`
        #[arg(long, value_name = "NAME")]
        key: String,
        /// Only for the machine with this UUID, which Linux shows in
        /// /sys/class/dmi/id/product_uuid
        #[arg(long, value_name = "UUID")]
        machine: Option<String>,
        /// Replace the document that the machine has, also one that its owner has written
        ///
        /// The machine uses the document once, unless it has used one that was signed at the same
        /// time or later. The time is that of this machine's clock.
        #[arg(long, requires = "machine")]
        replace: bool,
        /// The file to write [default: FILE with the ending `.signed`]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Print the JSON Schema of node documents, for use in an editor
    Schema,
}
