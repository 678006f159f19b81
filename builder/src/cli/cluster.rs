//! `osbuild cluster`

use super::{recipe_name, value};
use crate::ship::cluster::Endpoint;
use clap::Args;
use std::path::PathBuf;

/// Flags of `osbuild cluster`.
#[derive(Debug, Args)]
pub struct Cluster {
    /// The recipe of its first node
    #[arg(value_parser = recipe_name)]
    pub recipe: String,
    /// The folder, which must not exist
    pub folder: PathBuf,
    /// Where nodes and pods reach the API server: the address of the first node, or a name or an
    /// address that leads to all nodes of the control plane
    #[arg(long, value_name = "HOST[:PORT]", value_parser = value::<Endpoint>)]
    pub server: Endpoint,
    /// Where you reach it, if that differs
    #[arg(long, value_name = "HOST[:PORT]", value_parser = value::<Endpoint>)]
    pub administrator: Option<Endpoint>,
    /// Give leaders and servers more time, because the nodes' processors or disks are slow
    #[arg(long)]
    pub slow: bool,
}
