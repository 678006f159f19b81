//! The three examples of COSI's engine of 2021, on a node.

use super::node::{Node, yaml};
use super::remote::Osctl;
use crate::check::Outcome;
use osbuild::error::Result;

/// The documents, in the checkout.
const FILE: &str = "components/pods/osd/tests/state/engine_examples.yaml";

/// Each resource, its status, and a part of that. A node needs the value that one example changes.
const RESOURCES: [(&str, &str, &str, &str); 4] = [
    ("KernelParameters", "domainname", "KernelParameterStatuses", "current: cosi.dev"),
    (
        "KernelParameters",
        "ipv4-ip-forward",
        "KernelParameterStatuses",
        "the image does not allow `net.ipv4.ip_forward` to be set",
    ),
    ("Mounts", "tmp", "MountStatuses", "mounted: true"),
    ("Resolvers", "local", "ResolverStatuses", "earchSource: api"),
];

/// `osctl` applies them unchanged, and each is in effect or says why it is not.
pub fn apply_unchanged(node: &Node, osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    osctl.finish(&["apply", "-f", &osctl.site.root.join(FILE).display().to_string()])?;
    for (type_name, id, statuses, part) in RESOURCES {
        let of_node = if type_name == "Resolvers" { "node" } else { id };
        let status = node.resource_with(statuses, of_node, |text| text.contains(part))?;
        let holds = yaml(&status).contains(part);
        let claim = format!("the engine's {type_name} `{id}` applies");
        outcome.check(&claim, holds, || status.to_string());
        node.destroy(type_name, id)?;
    }
    Ok(())
}
