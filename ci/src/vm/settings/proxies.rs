//! A resource sets the proxy of containerd and the kubelet.

use super::node::{Node, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;
use osbuild_abi::paths::PROXY_ENVIRONMENT;

const PROXIES: &str = "Proxies";
const STATUSES: &str = "ProxyStatuses";
const ID: &str = "node";
const SPEC: &str = "{https: 'http://proxy.example:3128', noProxy: [.example]}";
/// Parts of the file that pods read, and of the status.
const VARIABLE: &str = "HTTPS_PROXY=http://proxy.example:3128\nNO_PROXY=localhost,";
const RUNS: &str = "https: http://proxy.example:3128";

/// Both daemons run with it, while their pods go on, and its file is put back.
pub fn is_set(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(PROXIES, ID, SPEC)?;
    has_status(node, "containerd and the kubelet run with a proxy", outcome)?;
    let text = node.read(PROXY_ENVIRONMENT)?;
    outcome.check("pods read the proxy", text.starts_with(VARIABLE), || text.clone());
    node.write(PROXY_ENVIRONMENT, "HTTPS_PROXY=http://stolen.example:3128\n")?;
    let within = node.becomes(PROXY_ENVIRONMENT, &text)?;
    was_repaired("the proxy of pods is put back", within, BY_EVENT, outcome);
    Ok(())
}

/// They run with it after a power cut, and without it when its resource goes.
pub fn outlasts_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, "a proxy outlasts a power cut", outcome)?;
    node.destroy_soon(PROXIES, ID)?;
    let has_none = |yaml: &str| !yaml.contains(RUNS) && yaml.contains("source: \"\"");
    let status = node.resource_with(STATUSES, ID, has_none)?;
    let claim = "the proxy goes with its resource";
    outcome.check(claim, has_none(yaml(&status)), || status.to_string());
    Ok(())
}

fn has_status(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let runs = |yaml: &str| yaml.contains(RUNS);
    let status = node.resource_with(STATUSES, ID, runs)?;
    outcome.check(claim, runs(yaml(&status)), || status.to_string());
    Ok(())
}
