//! A resource of a node gives its pods a part of its swap.

use super::kubectl::Kubectl;
use super::node_api::NodeApi;
use super::wait::{Seen, wait};
use crate::check::Outcome;
use osbuild::error::Result;
use std::time::Duration;

/// How long the emulated node may take to start the kubelet again, and a pod.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The resource, and the size of its swap in bytes.
const RESOURCE: &str = "type: Swap\nid: node\nspec: { size: 256Mi, pods: true }\n";
const BYTES: u64 = 256 << 20;

/// The pods: one that requests memory, and one that does not.
const PODS: &str = include_str!("pods_swap.yaml");

/// Where a container reads how much swap it may use, in bytes.
const LIMIT: &str = "/sys/fs/cgroup/memory.swap.max";

/// A pod that requests memory may use a part of the swap, and another one none.
pub fn pods_have_a_part_of_the_swap(
    kubectl: &Kubectl,
    node_api: &NodeApi,
    outcome: &mut Outcome,
) -> Result<()> {
    node_api.apply("swap.yaml", RESOURCE, &[])?;
    let on = wait(TIMEOUT, || {
        let status = node_api.finish(&["get", "swapstatuses", "node", "-o", "yaml"])?;
        let is_on = status.contains("setBy: api") && status.contains(&BYTES.to_string());
        Ok(if is_on { Seen::Yes(()) } else { Seen::NotYet(status) })
    })?;
    outcome.claim("a resource turns swap on for pods", on);
    kubectl.apply(PODS)?;
    let part = limit(kubectl, "requests-memory", |bytes| 0 < bytes && bytes < BYTES)?;
    outcome.claim("a pod that requests memory may use a part of the swap", part);
    let none = limit(kubectl, "requests-nothing", |bytes| bytes == 0)?;
    outcome.claim("a pod that requests nothing may use no swap", none);
    kubectl.output(&["delete", "pod/requests-memory", "pod/requests-nothing", "--now"])?;
    node_api.finish(&["delete", "swap", "node"]).map(drop)
}

/// The limit of a pod's container, once it is as expected.
fn limit(
    kubectl: &Kubectl,
    pod: &str,
    is_expected: impl Fn(u64) -> bool,
) -> Result<std::result::Result<(), String>> {
    wait(TIMEOUT, || {
        let ran = kubectl.run(&["exec", pod, "--", "cat", LIMIT])?;
        Ok(match ran.output.trim().parse() {
            Ok(bytes) if is_expected(bytes) => Seen::Yes(()),
            _ => Seen::NotYet(ran.output),
        })
    })
}
