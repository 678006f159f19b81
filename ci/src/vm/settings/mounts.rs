//! A resource mounts a tmpfs on the node.

use super::node::{Node, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

const MOUNTS: &str = "Mounts";
const STATUSES: &str = "MountStatuses";
const ID: &str = "scratch";
const SPEC: &str = "{type: tmpfs, source: scratch, target: /run/mnt/scratch, options: [size=1m]}";
/// The same type at a path that the image does not allow.
const ELSEWHERE: &str = "{type: tmpfs, source: scratch, target: /run/osbuild}";

/// It is mounted, and another one is refused.
pub fn is_mounted(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(MOUNTS, ID, SPEC)?;
    has_status(node, ID, "mounted: true", "a resource mounts a tmpfs", outcome)?;
    node.create(MOUNTS, "elsewhere", ELSEWHERE)?;
    let reason = "the image allows no mount";
    has_status(node, "elsewhere", reason, "a target that is not allowed is an error", outcome)?;
    node.destroy(MOUNTS, "elsewhere")
}

/// It is mounted after a power cut, and goes with its resource.
pub fn outlasts_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, ID, "mounted: true", "a mount outlasts a power cut", outcome)?;
    node.destroy(MOUNTS, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("a mount goes with its resource", is_gone, || "it has a status".into());
    Ok(())
}

fn has_status(node: &Node, id: &str, text: &str, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let status = node.resource_with(STATUSES, id, |yaml| yaml.contains(text))?;
    outcome.check(claim, yaml(&status).contains(text), || status.to_string());
    Ok(())
}
