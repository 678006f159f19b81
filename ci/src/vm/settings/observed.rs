//! The state of the node, as `osd` observes it.

use super::node::{Node, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

/// The address that QEMU's network gives.
const ADDRESS: &str = "eth0/10.0.2.15/24";
/// The file of the kernel's release.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// The pod sees the node's own network and kernel, without a capability.
pub fn is_what_the_node_has(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let address = node.resource("AddressStatuses", ADDRESS)?;
    let holds = yaml(&address).contains("link: eth0");
    outcome.check("a status has the address of the network", holds, || address.to_string());
    let (kernel, release) = (node.resource("KernelInfos", "node")?, node.read(RELEASE)?);
    let holds = !release.is_empty() && yaml(&kernel).contains(release.trim());
    outcome.check("a resource has the kernel's release", holds, || kernel.to_string());
    Ok(())
}
