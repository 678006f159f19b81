//! The cluster shows a setting that is not in effect.

use super::kubectl::Kubectl;
use super::node_api::NodeApi;
use crate::check::Outcome;
use osbuild::error::Result;
use std::time::Duration;

/// A setting for a module that the kernel of no recipe has.
const MODULE: &str = "type: KernelModule\nid: pool\nspec: { name: zfs }\n";
const PROBLEM: &str = "`kernel-module zfs` is not in effect: ";
/// The message of the condition about the host in the output of kubectl.
const SHOWN: &str = "-o=jsonpath={.status.conditions[?(@.type==\"HostProblem\")].message}";
/// The node writes a change of its problems at once, and looks for settings each minute.
const TIMEOUT: Duration = Duration::from_secs(150);

/// The node's condition names the setting, until its resource goes.
pub fn is_a_problem_of_the_host(
    kubectl: &Kubectl,
    node_api: &NodeApi,
    name: &str,
    outcome: &mut Outcome,
) -> Result<()> {
    let object = format!("node/{name}");
    let get = ["get", &object, SHOWN];
    node_api.apply("module.yaml", MODULE, &[])?;
    let claim = "the cluster shows a setting that is not in effect";
    kubectl.claim(outcome, TIMEOUT, claim, &get, PROBLEM)?;
    node_api.finish(&["delete", "kernelmodule", "pool"])?;
    let gone = kubectl.until_without(TIMEOUT, &get, PROBLEM)?;
    outcome.claim("and no more once its resource is gone", gone);
    Ok(())
}
