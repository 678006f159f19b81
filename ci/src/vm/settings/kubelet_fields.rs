//! A resource sets fields of the kubelet's configuration.

use super::node::{Node, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;

const CONFIGS: &str = "KubeletConfigs";
const STATUSES: &str = "KubeletConfigStatuses";
const ID: &str = "node";
const FIELD: &str = "maxPods";
const SPEC: &str = "maxPods: 42\n";
/// More memory than any machine has: the kubelet exits.
const BAD: &str = "maxPods: 42\nsystemReserved:\n  memory: 1000Gi\n";
/// The configuration of a kubelet without a cluster, and a part of it with this resource.
const FILE: &str = "/run/osbuild/kubelet/config/standalone.json";
const TEXT: &str = "\"maxPods\":42,";

/// The kubelet's file is put back, and the kubelet runs with them, while its pods go on.
pub fn are_set(node: &Node, outcome: &mut Outcome) -> Result<()> {
    // A kubelet that starts takes the processor.
    let text = node.read(FILE)?;
    node.write(FILE, "{}")?;
    let within = node.becomes(FILE, &text)?;
    was_repaired("the kubelet's configuration is put back", within, BY_EVENT, outcome);
    node.create(CONFIGS, ID, SPEC)?;
    has_status(node, "the kubelet runs with a field of a resource", outcome)?;
    let text = node.read(FILE)?;
    outcome.check("its configuration has the field", text.contains(TEXT), || text.clone());
    Ok(())
}

/// They are there after a power cut. Fields with which the kubelet does not start are taken back
/// within the boot, and the others go with their resource.
pub fn outlast_a_power_cut_and_a_refusal(
    node: &Node,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    has_status(node, "the kubelet runs with it after a power cut", outcome)?;
    let found = node.resource(CONFIGS, ID)?;
    let version = found["metadata"]["version"].as_str().unwrap_or_default();
    node.update(CONFIGS, ID, version, BAD)?;
    running.wait_until_printed("it gets the fields with which it has run before")?;
    running.wait_until_printed("`systemReserved.memory` of the kubelet is taken back")?;
    let is_back = |yaml: &str| !yaml.contains("systemReserved");
    let found = node.resource_with(CONFIGS, ID, is_back)?;
    outcome.check("a field that the kubelet refuses is taken back", is_back(yaml(&found)), || {
        found.to_string()
    });
    has_status(node, "the kubelet runs with the field from before", outcome)?;
    node.destroy_soon(CONFIGS, ID)?;
    let is_gone = node.is_gone(STATUSES, FIELD)?;
    outcome.check("fields go with their resource", is_gone, || "they have a status".into());
    let within = node.becomes_such(FILE, |text| !text.contains(TEXT))?;
    let claim = "the kubelet's configuration is that of the image again";
    outcome.check(claim, within.is_some(), || "it has the field".into());
    Ok(())
}

fn has_status(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let runs = |yaml: &str| yaml.contains("current: \"42\"");
    let status = node.resource_with(STATUSES, FIELD, runs)?;
    outcome.check(claim, runs(yaml(&status)), || status.to_string());
    Ok(())
}
