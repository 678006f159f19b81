//! A node goes back to the settings with which it was ready.

use super::node::{Node, yaml};
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;
use osbuild_abi::paths::RESOLV_CONF;
use serde_json::json;

/// The failed starts after which a node takes earlier settings.
pub const STARTS: u32 = 3;
/// A line of `init` after it has set the settings.
pub const ARE_SET: &str = "init: phase settings";

/// A setting with which the node gets ready, and one without harm that is changed later.
const RESOLVERS: (&str, &str) = ("Resolvers", "dns");
const GOOD: (&str, &str) = ("nameserver: 192.0.2.1", "nameserver 192.0.2.1");
const UNPROVEN: &str = "nameserver: 192.0.2.9";

/// The watches of `init`, which are eleven, and of containerd fit into this: without its own, that
/// would run without its plugin for the kubelet. The kubelet watches more control groups, and exits
/// if it cannot.
const PARAMETERS: (&str, &str) = ("KernelParameters", "inotify");
const BAD: (&str, &str) = ("key: fs.inotify.max_user_watches\nvalue: 16\n", "16");
const PATH: &str = "/proc/sys/fs/inotify/max_user_watches";

/// The message of `init` when it continues with the settings of the last good start.
const WITH_GOOD: &str = "the settings of the last good start are in effect";

pub fn sets_good_ones(node: &Node) -> Result<()> {
    node.create(RESOLVERS.0, RESOLVERS.1, GOOD.0)?;
    is_kept(node, "ResolverStatuses", "node", "192.0.2.1")
}

/// They do no harm before the daemons start again.
pub fn sets_bad_ones(node: &Node) -> Result<()> {
    node.create(PARAMETERS.0, PARAMETERS.1, BAD.0)?;
    is_kept(node, "KernelParameterStatuses", PARAMETERS.1, BAD.1)
}

/// `osd` writes a status when `init` has replied, which is after it has kept the setting.
fn is_kept(node: &Node, status: &str, id: &str, value: &str) -> Result<()> {
    node.resource_with(status, id, |yaml| yaml.contains(value)).map(drop)
}

pub fn is_ready_with_good_ones(
    node: &Node,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    let console = running.console()?;
    let has_failed = console.contains(&format!("has failed {STARTS} times in a row: {WITH_GOOD}"));
    outcome.check("a daemon that fails makes the node take good settings", has_failed, || {
        "the console does not show it".to_owned()
    });
    running.wait_until_printed("the node is ready with earlier settings")?;
    let value = node.read(PATH)?;
    outcome.check("the bad setting is taken back", value != BAD.1, || value.clone());
    let gone = node.is_gone(PARAMETERS.0, PARAMETERS.1)?;
    outcome.check("so is its resource", gone, || "it is still there".to_owned());
    spec_is(node, GOOD.0, "the good one stays, with its name", outcome)?;
    let generations = node.configure("ListGenerations", &json!({}))?;
    let newest = &generations["generations"][0];
    outcome.check("the generation is that of init", newest["caller"] == "init", || {
        generations.to_string()
    });
    let change = &newest["changes"][0];
    outcome.check("which shows what was taken back", change["outcome"] == "DESTROYED", || {
        newest.to_string()
    });
    Ok(())
}

/// The node is ready at once, and takes changes again.
pub fn stays_with_good_ones(
    node: &Node,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    let console = running.console()?;
    let is_ready_at_once = !console.contains("in effect") && !console.contains("in a row");
    outcome.check("the next start is without failures", is_ready_at_once, || console);
    spec_is(node, GOOD.0, "with the good settings", outcome)?;
    let found = node.resource(RESOLVERS.0, RESOLVERS.1)?;
    let version = found["metadata"]["version"].as_str().unwrap_or_default();
    let changed = node.update(RESOLVERS.0, RESOLVERS.1, version, UNPROVEN);
    outcome.check("settings can be changed again", changed.is_ok(), || format!("{changed:?}"));
    is_kept(node, "ResolverStatuses", "node", "192.0.2.9")
}

pub fn has_counted_starts(
    node: &Node,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    let console = running.console()?;
    let has_counted = console.contains(&format!("{STARTS} starts have failed: {WITH_GOOD}"));
    outcome.check("starts that end before the node is ready count", has_counted, || {
        "the console does not show it".to_owned()
    });
    let within = node.becomes(RESOLV_CONF, GOOD.1)?;
    outcome.check("the settings are the good ones", within.is_some(), String::new);
    spec_is(node, GOOD.0, "so is the resource", outcome)
}

/// A release whose `osd` never starts: the node has its address, as the probe answers, and the
/// settings that were good.
pub fn needs_no_osd(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let within = node.becomes(RESOLV_CONF, GOOD.1)?;
    let claim = "a node whose osd never starts has its address and its settings";
    outcome.check(claim, within.is_some(), String::new);
    let answer = node.configure("GetTry", &json!({}));
    outcome.check("nothing answers in its place", answer.is_err(), || format!("{answer:?}"));
    Ok(())
}

fn spec_is(node: &Node, spec: &str, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let address = spec.rsplit(' ').next().unwrap_or_default();
    let found = node.resource_with(RESOLVERS.0, RESOLVERS.1, |yaml| yaml.contains(address))?;
    outcome.check(claim, yaml(&found).contains(address), || found.to_string());
    Ok(())
}
