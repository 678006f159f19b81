//! A resource adds authorities to those that containerd and the kubelet trust.

use super::node::{Node, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;
use osbuild_abi::paths::TRUSTED_ROOTS;

const ROOTS: &str = "TrustedRoots";
const STATUSES: &str = "TrustedRootStatuses";
const ID: &str = "corporate";

/// Both daemons run with the certificates in PEM, and their file is put back.
pub fn are_set(node: &Node, certificates: &str, outcome: &mut Outcome) -> Result<()> {
    let lines: String = certificates.lines().map(|line| format!("  {line}\n")).collect();
    node.create(ROOTS, ID, &format!("name: {ID}\ncertificates: |\n{lines}"))?;
    has_status(node, "containerd and the kubelet run with other authorities", outcome)?;
    let text = node.read(TRUSTED_ROOTS)?;
    let is_ours = text.trim_end() == certificates.trim_end();
    outcome.check("daemons and pods read the authorities", is_ours, || text.clone());
    node.write(TRUSTED_ROOTS, "no certificate")?;
    let within = node.becomes(TRUSTED_ROOTS, &text)?;
    was_repaired("the authorities are put back", within, BY_EVENT, outcome);
    Ok(())
}

/// They are there after a power cut, and go with their resource.
pub fn outlast_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, "authorities outlast a power cut", outcome)?;
    node.destroy_soon(ROOTS, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("authorities go with their resource", is_gone, || "they have a status".into());
    Ok(())
}

fn has_status(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_set = |yaml: &str| yaml.contains("set: true");
    let status = node.resource_with(STATUSES, ID, is_set)?;
    outcome.check(claim, is_set(yaml(&status)), || status.to_string());
    Ok(())
}
