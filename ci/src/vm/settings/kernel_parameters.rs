//! A resource sets a kernel parameter of the node.

use super::node::{Node, yaml};
use super::{BY_POLL, took_effect, was_repaired};
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;
use std::time::Duration;

const PARAMETERS: &str = "KernelParameters";
const STATUSES: &str = "KernelParameterStatuses";

/// A parameter that the image allows, the kernel's own value, and the one that a resource gives it.
const BACKLOG: (&str, &str, &str) = ("net.core.somaxconn", "4096", "8192");
/// The value that another program gives it.
const FOREIGN: &str = "128";
/// Another one that the image allows.
const SWAPPINESS: (&str, &str) = ("vm.swappiness", "17");
/// One that the kubelet demands, so that the image does not allow it, and its value.
const PANIC: (&str, &str) = ("kernel.panic", "10");

pub fn sets_one(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let (key, own, value) = BACKLOG;
    let found = node.read(&file(key))?;
    outcome.check("the kernel has its own value first", found == own, || found);
    create(node, "backlog", key, value)?;
    let within = node.becomes(&file(key), value)?;
    took_effect("a resource sets a parameter", within, outcome);
    let current = format!("current: \"{value}\"");
    let status = node.resource_with(STATUSES, "backlog", |yaml| yaml.contains(&current))?;
    let holds = yaml(&status).contains(&current) && !yaml(&status).contains("error");
    outcome.check("its status has the kernel's value", holds, || status.to_string());
    Ok(())
}

/// Returns how long it took.
pub fn puts_it_back(
    node: &Node,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<Duration> {
    let (key, _, value) = BACKLOG;
    node.write(&file(key), FOREIGN)?;
    let claim = "a parameter of another program is replaced within a second";
    let took = was_repaired(claim, node.becomes(&file(key), value)?, BY_POLL, outcome);
    running.wait_until_printed(&format!("another program set `{key}` to `{FOREIGN}`"))?;
    Ok(took)
}

pub fn refuses_another(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let (key, value) = PANIC;
    create(node, "panic", key, "0")?;
    let reason = "the image does not allow";
    let status = node.resource_with(STATUSES, "panic", |yaml| yaml.contains(reason))?;
    let holds = yaml(&status).contains(reason);
    outcome.check("a parameter that is not allowed is an error", holds, || status.to_string());
    let found = node.read(&file(key))?;
    outcome.check("it keeps its value", found == value, || found);
    node.destroy(PARAMETERS, "panic")
}

pub fn is_remembered_after_a_crash(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let found = node.resource(PARAMETERS, "backlog")?;
    let version = &found["metadata"]["version"];
    outcome.check("osd keeps a resource over a crash", version == "1", || found.to_string());
    let value = node.read(&file(BACKLOG.0))?;
    outcome.check("the parameter is still set", value == BACKLOG.2, || value);
    create(node, "swappiness", SWAPPINESS.0, SWAPPINESS.1)
}

pub fn has_both_after_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for (key, value) in [(BACKLOG.0, BACKLOG.2), SWAPPINESS] {
        let found = node.read(&file(key))?;
        let claim = "a parameter is set after a power cut";
        outcome.check(claim, found == value, || format!("`{key}` is `{found}`"));
    }
    let found = node.resource(PARAMETERS, "backlog")?;
    let version = &found["metadata"]["version"];
    outcome.check("osd keeps it over a power cut", version == "1", || found.to_string());
    Ok(())
}

/// `init` has set the parameters of the boot before without `osd`, which names each resource after
/// its parameter.
pub fn begin_with_what_init_holds(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for (key, value) in [(BACKLOG.0, BACKLOG.2), SWAPPINESS] {
        let found = node.resource(PARAMETERS, key)?;
        let claim = "osd has a resource for what init holds";
        outcome.check(claim, yaml(&found).contains(value), || found.to_string());
        let found = node.read(&file(key))?;
        let claim = "a parameter stays set without a resource";
        outcome.check(claim, found == value, || format!("`{key}` is `{found}`"));
    }
    Ok(())
}

pub fn gives_the_value_back(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let (key, own, _) = BACKLOG;
    node.destroy(PARAMETERS, key)?;
    let within = node.becomes(&file(key), own)?;
    let claim = "a destroyed resource gives the value back";
    outcome.check(claim, within.is_some(), || "it does not".into());
    let found = node.read(&file(SWAPPINESS.0))?;
    outcome.check("another one keeps its own", found == SWAPPINESS.1, || found);
    Ok(())
}

fn create(node: &Node, id: &str, key: &str, value: &str) -> Result<()> {
    node.create(PARAMETERS, id, &format!("key: {key}\nvalue: \"{value}\"\n"))
}

/// The file of a parameter.
fn file(key: &str) -> String {
    format!("/proc/sys/{}", key.replace('.', "/"))
}
