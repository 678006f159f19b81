//! Flags of `osbuild results`.

use super::{recipe_name, value};
use crate::ship::results::Place;
use clap::{ArgGroup, Subcommand};
use std::path::PathBuf;

/// The verbs of `osbuild results`.
#[derive(Debug, Subcommand)]
pub enum Results {
    /// Build recipes, and write the results of all their steps to a folder or a registry, signed by
    /// a release key
    ///
    /// Only results of this machine count: a step whose result came from elsewhere runs again. The
    /// result is an OCI artifact: a folder is an OCI image layout.
    Export {
        /// The recipes
        #[arg(value_name = "RECIPE", value_parser = recipe_name, required = true)]
        recipes: Vec<String>,
        /// A folder, or oci://HOST[:PORT]/NAME[:TAG]
        #[arg(long, value_name = "PLACE", value_parser = value::<Place>)]
        to: Place,
        /// The keys in `keys/` whose release key signs [default: the first recipe's]
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
    },
    /// Take the results from a folder or a registry into the store
    ///
    /// Their signer decides what your builds contain. Builds use them like results of a
    /// shared cache: `release` runs their steps again unless it has `--remote-trusted`, and `build
    /// --rebuild` compares.
    #[command(group = ArgGroup::new("trusted").args(["key", "root"]).required(true))]
    Import {
        /// A folder, or oci://HOST[:PORT]/NAME[:TAG]
        #[arg(value_name = "PLACE", value_parser = value::<Place>)]
        from: Place,
        /// Trust the release keys of these keys in `keys/`
        #[arg(long, value_name = "NAME")]
        key: Option<String>,
        /// Trust the release keys in this root of trust, keys/NAME/root.json
        #[arg(long, value_name = "FILE")]
        root: Option<PathBuf>,
    },
}
