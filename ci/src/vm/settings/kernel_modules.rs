//! Resources ask for modules of the kernel, which loads none.

use super::node::{Node, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

const MODULES: &str = "KernelModules";
const STATUSES: &str = "KernelModuleStatuses";
const ID: &str = "encryption";
/// Modules, each with the identifier of its resource and a part of its status. The list of the
/// image has the first, and `/sys/module` the second, which is no module elsewhere.
const CASES: [(&str, &str, &str); 4] = [
    (ID, "dm-crypt", "builtIn: true"),
    ("part", "printk", "builtIn: true"),
    ("group", "kvm", "virtualization = true"),
    ("unknown", "zfs", "the recipe can set its option in `[kernel.options]`"),
];

/// Their statuses say whether the kernel has them, and what brings them.
pub fn have_statuses(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for (id, name, text) in CASES {
        node.create(MODULES, id, &format!("name: {name}"))?;
        has_status(
            node,
            id,
            text,
            &format!("a status says what the kernel has of {name}"),
            outcome,
        )?;
    }
    for (id, ..) in &CASES[1..] {
        node.destroy(MODULES, id)?;
    }
    Ok(())
}

/// One is there after a power cut, and goes with its resource.
pub fn outlast_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, ID, "builtIn: true", "a kernel module outlasts a power cut", outcome)?;
    node.destroy(MODULES, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("a kernel module goes with its resource", is_gone, || "it has a status".into());
    Ok(())
}

fn has_status(node: &Node, id: &str, text: &str, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let status = node.resource_with(STATUSES, id, |yaml| yaml.contains(text))?;
    outcome.check(claim, yaml(&status).contains(text), || status.to_string());
    Ok(())
}
