//! A resource sets the mirrors of a registry.

use super::node::{Node, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;

const MIRRORS: &str = "RegistryMirrors";
const STATUSES: &str = "RegistryMirrorStatuses";
const ID: &str = "example";
const SPEC: &str = "{registry: registry.example, mirrors: [{url: 'https://mirror.example'}]}";
/// The file that containerd reads, and its text with this resource.
const FILE: &str = "/run/osbuild/registries/registry.example/hosts.toml";
const TEXT: &str = "[host.\"https://mirror.example\"]\ncapabilities = [\"pull\", \"resolve\"]";

/// containerd finds them, also after another program has written the file.
pub fn are_set(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(MIRRORS, ID, SPEC)?;
    has_file(node, "a resource sets the mirrors of a registry", outcome)?;
    let is_set = |yaml: &str| yaml.contains("set: true");
    let status = node.resource_with(STATUSES, ID, is_set)?;
    let claim = "the status of the mirrors says that they are set";
    outcome.check(claim, is_set(yaml(&status)), || status.to_string());
    node.write(FILE, "server = \"http://stolen.example\"")?;
    let within = node.becomes(FILE, TEXT)?;
    was_repaired("mirrors of a registry are put back", within, BY_EVENT, outcome);
    Ok(())
}

/// They are there after a power cut, and go with their resource.
pub fn outlast_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_file(node, "mirrors of a registry outlast a power cut", outcome)?;
    node.destroy(MIRRORS, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("mirrors go with their resource", is_gone, || "they have a status".into());
    Ok(())
}

fn has_file(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_there = node.becomes(FILE, TEXT)?.is_some();
    outcome.check(claim, is_there, || format!("`{FILE}` has another text"));
    Ok(())
}
