//! Flags of `osbuild verify`.

use super::{recipe_name, value};
use crate::plan::Date;
use clap::Args;
use osbuild_release::Channel;
use std::path::PathBuf;

/// The arguments of `osbuild verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The file
    pub file: PathBuf,
    /// For a folder of releases: the root of trust, `keys/NAME/root.json` [default: that of
    /// `--key`]
    #[arg(long, value_name = "FILE")]
    pub root: Option<PathBuf>,
    /// For a folder of releases: check only this channel [default: all channels]
    #[arg(long, value_name = "CHANNEL")]
    pub channel: Option<Channel>,
    /// For a folder of releases: read the files of all releases, not only of those in a channel
    #[arg(long)]
    pub all: bool,
    /// For a folder of releases: remember the versions seen in this folder, and refuse older ones
    #[arg(long, value_name = "DIR")]
    pub memory: Option<PathBuf>,
    /// A trusted certificate in PEM: `keys/NAME/db.crt`
    #[arg(long, value_name = "FILE")]
    pub cert: Vec<PathBuf>,
    /// Trust the certificates of these keys in `keys/`, except the revoked ones
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Check everything but signatures: the file is not signed yet
    #[arg(long, conflicts_with_all = ["key", "cert", "root"])]
    pub unsigned: bool,
    /// The day on which certificates must be valid [default: today]
    #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
    pub as_of: Option<Date>,
    /// Build this recipe again, in out/RECIPE/rebuilt, and compare byte for byte without the
    /// signatures. Steps that the store has are reused and listed: without `--rebuild`, the machine
    /// that built the file compares it with its own cache
    #[arg(long, value_name = "RECIPE", value_parser = recipe_name)]
    pub against: Option<String>,
    /// Run every step of it again, even if the store has the result
    #[arg(long, requires = "against")]
    pub rebuild: bool,
    /// Build it from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR", requires = "against")]
    pub sources: Option<PathBuf>,
    /// The file is the disk of a node that has run: ignore what a node writes, which is the state
    /// of its slots, DATA and the other slot
    #[arg(long, requires = "against")]
    pub has_run: bool,
}
