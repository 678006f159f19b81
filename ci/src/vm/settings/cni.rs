//! A pod writes network configurations, as the pod of a network plugin does.

use super::node::{Node, words, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

const STATUSES: &str = "CniStatuses";
const FILE: &str = "/etc/cni/net.d/10-pods.conflist";

/// A valid configuration whose plugin is not installed at first, and what is left of it when its
/// pod is interrupted.
const VALID: &str = r#"{"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "ptp"}]}"#;
const BROKEN: &str = r#"{"name": "pods", "cniVersion": "1.0.0", "plu"#;

/// The program of the plugin, which nothing runs here.
const PROGRAM: &str = "/opt/cni/bin/ptp";

/// The status says why pods get no network: there is no configuration, a program is missing, or the
/// configuration is broken. It has no error once the program is there.
pub fn has_its_status(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let none = ["/etc/cni/net.d has no network configuration"];
    is_shown(node, &none, "a node without a network for pods says so", outcome)?;
    node.write(FILE, VALID)?;
    let missing = [
        "file: 10-pods.conflist\n",
        "name: pods\n",
        "missingPlugins:\n- ptp\n",
        "the program of the plugin `ptp` is not in /opt/cni/bin",
    ];
    is_shown(node, &missing, "a missing program of a CNI plugin is named", outcome)?;
    node.place(PROGRAM, 0o755, "program")?;
    has_no_error(node, outcome)?;
    node.write(FILE, BROKEN)?;
    let broken =
        ["file: 10-pods.conflist\n", "10-pods.conflist: it is not JSON: EOF while parsing"];
    is_shown(node, &broken, "a broken CNI configuration is named with its mistake", outcome)
}

fn has_no_error(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let holds = |yaml: &str| {
        yaml.contains("name: pods\n") && !yaml.contains("missingPlugins") && !yaml.contains("error")
    };
    let status = node.resource_with(STATUSES, "node", holds)?;
    let claim = "a configuration whose programs are there has no error";
    outcome.check(claim, holds(yaml(&status)), || status.to_string());
    Ok(())
}

fn is_shown(node: &Node, parts: &[&str], claim: &str, outcome: &mut Outcome) -> Result<()> {
    let holds = |yaml: &str| parts.iter().all(|part| words(yaml).contains(&words(part)));
    let status = node.resource_with(STATUSES, "node", holds)?;
    outcome.check(claim, holds(yaml(&status)), || status.to_string());
    Ok(())
}
