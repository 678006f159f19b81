//! A resource holds a label of the node in its cluster.

use super::kubectl::Kubectl;
use super::node_api::NodeApi;
use crate::check::Outcome;
use osbuild::error::Result;
use std::time::Duration;

const LABEL: &str = "type: NodeLabel\nid: rack\nspec: { key: example.org/rack, value: '7' }\n";
/// The label in the output of kubectl.
const SHOWN: &str = "-o=jsonpath={.metadata.labels.example\\.org/rack}";
const VALUE: &str = "7";

/// The change of somebody else.
const CHANGE: &str = "example.org/rack=9";

/// The node watches its object. An emulated one needs some seconds to change it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The node has the label of a resource, also after somebody has changed and removed it in the
/// cluster.
pub fn is_put_back(
    kubectl: &Kubectl,
    node_api: &NodeApi,
    name: &str,
    outcome: &mut Outcome,
) -> Result<()> {
    let object = format!("node/{name}");
    let get = ["get", &object, SHOWN];
    node_api.apply("label.yaml", LABEL, &[])?;
    kubectl.claim(outcome, TIMEOUT, "a resource sets a label of the node", &get, VALUE)?;
    for (change, claim) in [
        (CHANGE, "a label that is changed in the cluster is changed back"),
        ("example.org/rack-", "a label that is removed in the cluster is there again"),
    ] {
        kubectl.output(&["label", "--overwrite", &object, change])?;
        kubectl.claim(outcome, TIMEOUT, claim, &get, VALUE)?;
    }
    Ok(())
}

/// Somebody changes the label.
pub fn is_changed(kubectl: &Kubectl, name: &str) -> Result<()> {
    kubectl.output(&["label", "--overwrite", &format!("node/{name}"), CHANGE]).map(drop)
}

/// The node has been away while the label was changed. It has it again until the resource goes.
pub fn is_put_back_after_a_power_cut_and_goes(
    kubectl: &Kubectl,
    node_api: &NodeApi,
    name: &str,
    outcome: &mut Outcome,
) -> Result<()> {
    let object = format!("node/{name}");
    let claim = "a label that was changed while the node was away is changed back";
    kubectl.claim(outcome, TIMEOUT, claim, &["get", &object, SHOWN], VALUE)?;
    node_api.finish(&["delete", "nodelabel", "rack"])?;
    let without = ["get", "nodes", "--selector=!example.org/rack", "-o=name"];
    kubectl.claim(outcome, TIMEOUT, "a label goes with its resource", &without, name)
}
