//! The settings of the recipe, in the signed root, which have the lowest rank.

use super::node::{Node, TIMEOUT, yaml};
use super::{BY_POLL, took_effect, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The section of the recipe. The image does not allow requests to set the second parameter.
pub const NODE: &str = "
[node.kernel-parameters]
\"vm.dirty_ratio\" = 21
\"vm.stat_interval\" = 7

[[node.routing-rules]]
priority = 2007
from = \"203.0.113.99/32\"
table = 99
";

/// The files of the parameters, their values, the resource of the first and another value of it.
const RATIO: (&str, &str, &str, &str) = ("/proc/sys/vm/dirty_ratio", "21", "vm.dirty_ratio", "34");
const INTERVAL: (&str, &str) = ("/proc/sys/vm/stat_interval", "7");
/// Words in the status of the second, and of the routing rule, which the pod `dhcp` sets.
const KEY: &str = "vm.stat_interval";
const RULE: &str = "priority: 2007";

/// The pause before resources are read again.
const PAUSE: Duration = Duration::from_millis(200);

/// They are in effect, and put back when another program changes them. A resource outranks one, and
/// gives way to it again.
pub fn are_in_effect(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let (file, value, key, other) = RATIO;
    for (file, value) in [(file, value), INTERVAL] {
        let found = node.read(file)?;
        outcome.check("the recipe sets a kernel parameter", found == value, || found);
    }
    let claim = "the status of a parameter names the image as its source";
    has_status(node, "KernelParameterStatuses", [KEY, "setBy: image"], claim, outcome)?;
    let claim = "the recipe sets a routing rule";
    has_status(node, "RoutingRuleStatuses", [RULE, "setBy: image"], claim, outcome)?;
    node.write(INTERVAL.0, "1")?;
    let claim = "a parameter of the recipe is replaced within a second";
    was_repaired(claim, node.becomes(INTERVAL.0, INTERVAL.1)?, BY_POLL, outcome);
    node.create("KernelParameters", key, &format!("key: {key}\nvalue: \"{other}\"\n"))?;
    let within = node.becomes(file, other)?;
    took_effect("a resource outranks the recipe", within, outcome);
    node.destroy("KernelParameters", key)?;
    let within = node.becomes(file, value)?;
    outcome.check("the recipe's value is back", within.is_some(), || "it is not".into());
    Ok(())
}

/// Checks that a resource of the type has these words, soon.
fn has_status(
    node: &Node,
    type_name: &str,
    words: [&str; 2],
    claim: &str,
    outcome: &mut Outcome,
) -> Result<()> {
    let began = Instant::now();
    loop {
        let found = node.resources(type_name)?;
        let holds = found.iter().any(|one| words.iter().all(|word| yaml(one).contains(word)));
        if holds || began.elapsed() > TIMEOUT {
            outcome.check(claim, holds, || format!("{found:?}"));
            return Ok(());
        }
        sleep(PAUSE);
    }
}
