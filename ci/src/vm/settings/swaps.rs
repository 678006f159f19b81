//! A resource gives a node compressed memory as swap.

use super::node::{Node, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use crate::vm::probe;
use osbuild::error::Result;
use std::io::Write;
use std::time::Duration;

const SWAPS: &str = "Swaps";
const STATUSES: &str = "SwapStatuses";
const ID: &str = "node";
const SPEC: &str = "size: 64Mi\n";
const WITH_PODS: &str = "size: 64Mi\npods: true\n";
/// The size of the device, and the KiB of the kernel's table, which lack the page of the header.
const BYTES: &str = "bytes: 67108864\n";
const KIB: &str = "65532";
const DEVICE: &str = "/dev/zram0";
const TABLE: &str = "/proc/swaps";
/// The configuration of a kubelet without a cluster, and its part that gives pods swap.
const FILE: &str = "/run/osbuild/kubelet/config/standalone.json";
const TEXT: &str = "\"memorySwap\":{\"swapBehavior\":\"LimitedSwap\"}";

/// The kernel uses it, and it is on again after another program has turned it off.
pub fn is_on(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(SWAPS, ID, SPEC)?;
    has_status(node, "a resource turns swap on", outcome)?;
    let table = node.read(TABLE)?;
    let row = table.lines().find(|line| line.starts_with(DEVICE)).unwrap_or_default();
    outcome.check("the kernel has the swap with its size", row.contains(KIB), || table.clone());
    let took = probe::request(node.swaps, |stream| write!(stream, "{DEVICE}"))?;
    let within = took.parse().ok().map(Duration::from_millis);
    was_repaired("swap that was turned off is on again", within, BY_EVENT, outcome);
    Ok(())
}

/// The kubelet gives pods a part, while its pods go on.
pub fn gives_pods_a_part(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let found = node.resource(SWAPS, ID)?;
    let version = found["metadata"]["version"].as_str().unwrap_or_default();
    node.update(SWAPS, ID, version, WITH_PODS)?;
    let within = node.becomes_such(FILE, |text| text.contains(TEXT))?;
    outcome.check("the kubelet gives pods swap", within.is_some(), String::new);
    has_status(node, "the swap stays on", outcome)
}

/// It is on after a power cut, and goes with its resource.
pub fn outlasts_a_power_cut_and_goes(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, "swap outlasts a power cut", outcome)?;
    let text = node.read(FILE)?;
    outcome.check("pods have a part after it", text.contains(TEXT), || text.clone());
    node.destroy(SWAPS, ID)?;
    let within = node.becomes_such(TABLE, |table| !table.contains(DEVICE))?;
    outcome.check("swap goes with its resource", within.is_some(), || "it is on".into());
    let has_none = |yaml: &str| yaml.contains("bytes: 0\n") && !yaml.contains("setBy");
    let status = node.resource_with(STATUSES, ID, has_none)?;
    outcome.check("its status has none then", has_none(yaml(&status)), || status.to_string());
    let within = node.becomes_such(FILE, |text| !text.contains(TEXT))?;
    outcome.check("pods have no part then", within.is_some(), || "they have".into());
    Ok(())
}

fn has_status(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_on = |yaml: &str| yaml.contains(BYTES) && yaml.contains("setBy: api\n");
    let status = node.resource_with(STATUSES, ID, is_on)?;
    outcome.check(claim, is_on(yaml(&status)), || status.to_string());
    Ok(())
}
