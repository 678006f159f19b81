//! A resource makes a node without a node document join a cluster, and leave it.

use super::joining::resource;
use super::node_api::NodeApi;
use super::wait::{Seen, wait};
use super::{Cluster, text};
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;
use serde_json::Value;
use std::time::Duration;

/// The resource, and the file with it.
const ID: &str = "node";
const FILE: &str = "join.yaml";
/// How long after a change of the cluster the status of the node may say so.
const TIMEOUT: Duration = Duration::from_secs(90);
/// The line of `init` when the kubelet joins.
const JOINS: &str = "init: kubelet: joins its cluster as node `";

/// The node joins, and says until when its certificate is valid. The same resource once more
/// changes nothing, and nobody reads its token back.
pub fn joins(
    cluster: &mut Cluster,
    node_api: &NodeApi,
    running: &mut NodeUnderTest,
) -> Result<Value> {
    let document = resource(&cluster.plane)?;
    node_api.apply(FILE, &document, &[])?;
    let node = cluster.ready_node(running, None)?;
    let is_ready =
        |status: &str| status.contains("ready: \"True\"") && status.contains("certificateUntil: ");
    let status = status(node_api, is_ready)?;
    let outcome = &mut cluster.outcome;
    outcome.claim("a resource makes a node join, and its status says so", status);

    let again = node_api.apply(FILE, &document, &[])?;
    let is_unchanged = again.contains(&format!("unchanged ClusterJoins.osbuild/{ID}"));
    outcome.check("the same cluster once more changes nothing", is_unchanged, || again);
    let console = running.console()?;
    let times = console.matches(JOINS).count();
    outcome.check("the node has joined once", times == 1, || format!("{times} times"));

    let shown = node_api.finish(&["get", "clusterjoins", ID, "-o", "yaml"])?;
    let is_hidden = shown.contains("token: (hidden)") && !shown.contains(&cluster.plane.token());
    outcome.check("nobody reads the token of a cluster back", is_hidden, || shown);
    let is_hidden = !console.contains(&cluster.plane.token());
    outcome.check("the console does not have the token", is_hidden, || "it has".to_owned());
    Ok(node)
}

/// The node joins again by the resource after a power cut. It is the same one for its cluster.
pub fn joins_after_a_power_cut(
    cluster: &mut Cluster,
    running: &mut NodeUnderTest,
    before: &Value,
) -> Result<()> {
    let node = cluster.ready_node(running, Some(before))?;
    let uids = [before, &node].map(|node| text(node, "/metadata/uid").to_owned());
    let claim = "a node that joined by a resource is the same one after a power cut";
    cluster.outcome.check(claim, uids[0] == uids[1], || uids.join(" became "));
    Ok(())
}

/// The node leaves when the resource goes, and its pods go on: `osd` answers.
pub fn leaves(cluster: &mut Cluster, node_api: &NodeApi) -> Result<()> {
    node_api.finish(&["delete", "clusterjoins", ID])?;
    let status =
        status(node_api, |status| status.contains("source: \"\"") && !status.contains("ready: "))?;
    cluster.outcome.claim("a node leaves its cluster with the resource", status);
    Ok(())
}

/// Waits for this status of the node in its cluster.
fn status(
    node_api: &NodeApi,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<std::result::Result<(), String>> {
    wait(TIMEOUT, || {
        let status = node_api.finish(&["get", "clusterjoinstatuses", ID, "-o", "yaml"])?;
        Ok(if is_wanted(&status) { Seen::Yes(()) } else { Seen::NotYet(status) })
    })
}
