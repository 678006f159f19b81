//! Resources set labels and taints of a node, which has no cluster yet.

use super::node::{Node, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

const LABEL: [&str; 4] =
    ["NodeLabels", "NodeLabelStatuses", "rack", "{key: example.org/rack, value: '7'}"];
const TAINT: [&str; 4] = [
    "NodeTaints",
    "NodeTaintStatuses",
    "database",
    "{key: dedicated, value: database, effect: NoSchedule}",
];
/// The file of the kubelet's flags, and the flag in it with this label.
const FLAGS: &str = "/run/osbuild/kubelet/flags";
const FLAG: &str = "--node-labels=example.org/rack=7";
/// The configuration of a kubelet in a cluster, and a part of it with this taint.
const FILE: &str = "/run/osbuild/kubelet/config/joined.json";
const TEXT: &str = "\"key\":\"dedicated\"";

/// The kubelet will register its node with them. Until then they are not set, without an error, and
/// go with their resources.
pub fn wait_for_a_cluster(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for [kind, statuses, id, spec] in [LABEL, TAINT] {
        node.create(kind, id, spec)?;
        let waits = |yaml: &str| yaml.contains("set: false") && !yaml.contains("error:");
        let status = node.resource_with(statuses, id, waits)?;
        let claim = format!("{id} waits for the node to register");
        outcome.check(&claim, waits(yaml(&status)), || status.to_string());
    }
    let within = node.becomes(FLAGS, FLAG)?;
    outcome.check("the kubelet registers with a label", within.is_some(), || {
        format!("`{FLAGS}` has another text")
    });
    let within = node.becomes_such(FILE, |text| text.contains(TEXT))?;
    outcome.check("it registers with a taint", within.is_some(), || {
        format!("`{FILE}` does not have it")
    });
    for [kind, statuses, id, _] in [LABEL, TAINT] {
        node.destroy(kind, id)?;
        let is_gone = node.is_gone(statuses, id)?;
        let claim = format!("{id} goes with its resource");
        outcome.check(&claim, is_gone, || "it has a status".into());
    }
    Ok(())
}
