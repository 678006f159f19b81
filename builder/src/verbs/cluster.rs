//! `osbuild cluster`

use super::Session;
use crate::cli;
use crate::error::{Error, Result};
use crate::ship::cluster::{ClusterFiles, NewCluster, Nodes, control_plane};
use serde_json::json;
use std::time::SystemTime;

/// `osbuild cluster`
pub fn run(session: &Session, flags: &cli::Cluster) -> Result<()> {
    session.check_set(&[&flags.recipe])?;
    let plan = session.locked(&flags.recipe)?;
    let kubernetes = control_plane(&plan).ok_or_else(|| {
        Error::usage(format!("a node of `{}` makes no control plane", plan.recipe))
            .hint("`recipes/control-plane-amd64.toml` has the pod that does")
    })?;
    let administrator = flags.administrator.clone().unwrap_or_else(|| flags.server.clone());
    let nodes = if flags.slow { Nodes::Slow } else { Nodes::Fast };
    let cluster = NewCluster { kubernetes, server: flags.server.clone(), administrator, nodes };
    let files = ClusterFiles::make(&flags.folder, &cluster, SystemTime::now())?;
    let (kubeconfig, first) = (files.kubeconfig(), files.first());
    let (planes, others) = (files.planes(), files.others());
    if session.common.json {
        let paths = json!({
            "kubeconfig": kubeconfig, "first": first, "planes": planes, "others": others,
        });
        session.report.data(paths.to_string());
    } else {
        session.report.note(format!("the files of the first node: {}", first.display()));
        let note = format!("the files of further control planes: {}", planes.display());
        session.report.note(note);
        session.report.note(format!("the files of all other nodes: {}", others.display()));
        session.report.data(kubeconfig.display().to_string());
    }
    Ok(())
}
