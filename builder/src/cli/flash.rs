//! Flags of `osbuild flash`.

use super::{Signing, recipe_name};
use clap::Args;
use std::path::PathBuf;

/// The arguments of `osbuild flash`.
#[derive(Debug, Args)]
pub struct Flash {
    /// The recipe
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// The whole disk: `/dev/sdb`, `/dev/disk/by-id/usb-…`. A disk that is fixed, mounted or has
    /// this machine's system must be named twice
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<PathBuf>,
    /// Build from a folder that `osbuild sources export` wrote
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// The keys to sign with
    #[command(flatten)]
    pub signing: Signing,
}
