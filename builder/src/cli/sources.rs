//! Flags of `osbuild sources`.

use super::recipe_name;
use clap::Subcommand;
use std::path::PathBuf;

/// The verbs of `osbuild sources`.
#[derive(Debug, Subcommand)]
pub enum Sources {
    /// Write every locked input of a recipe to DIR/sha256/, and the list of them to
    /// DIR/sources.json
    Export {
        /// The recipe
        #[arg(value_parser = recipe_name)]
        recipe: String,
        /// The folder; intact files of an earlier export are kept
        folder: PathBuf,
    },
    /// Import every input of an exported folder into the store
    Import {
        /// The folder
        folder: PathBuf,
    },
}
