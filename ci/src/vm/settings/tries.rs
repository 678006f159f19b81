//! A change that nobody confirms takes itself back.

use super::node::{Node, yaml};
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;
use osbuild_abi::paths::RESOLV_CONF;
use serde_json::json;
use std::time::{Duration, Instant};

/// How long a try lasts whose end the check waits for, and one that it ends itself.
const SHORT: u32 = 15;
const LONG: u32 = 900;
/// How much later than that it may end, on an emulated processor.
const TOLERANCE: Duration = Duration::from_secs(5);

/// The resource that is changed, its specs, and the resolver's file with each.
const TYPE: &str = "Resolvers";
const ID: &str = "tried";
const KEPT: (&str, &str) = ("nameserver: 192.0.2.1", "nameserver 192.0.2.1");
const TRIED: (&str, &str) = ("nameserver: 192.0.2.2", "nameserver 192.0.2.2");
const CONFIRMED: (&str, &str) = ("nameserver: 192.0.2.3", "nameserver 192.0.2.3");

/// Each way in which a try ends within a boot.
pub fn end(node: &Node, running: &mut NodeUnderTest, outcome: &mut Outcome) -> Result<()> {
    node.create(TYPE, ID, KEPT.0)?;
    has(node, KEPT.1, "a change without a try stays", outcome)?;
    is_over_in_time(node, running, outcome)?;

    begin(node, LONG, TRIED, outcome)?;
    node.configure("RevertTry", &json!({}))?;
    has(node, KEPT.1, "a reverted try is taken back at once", outcome)?;

    begin(node, LONG, TRIED, outcome)?;
    node.signal("KILL")?;
    has(node, KEPT.1, "osd takes back the try of its earlier process", outcome)?;
    spec_is(node, KEPT, "its resource is that from before the try", outcome)?;

    needs_no_osd(node, outcome)?;

    begin(node, LONG, CONFIRMED, outcome)?;
    node.configure("ConfirmTry", &json!({}))?;
    let state = node.configure("GetTry", &json!({}))?;
    outcome.check("a confirmed try is none", state == json!({}), || state.to_string());
    has(node, CONFIRMED.1, "a confirmed change stays", outcome)?;
    // A power cut ends this one.
    begin(node, LONG, TRIED, outcome)
}

pub fn is_gone_after_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has(
        node,
        CONFIRMED.1,
        "a confirmed change outlasts a power cut, a tried one does not",
        outcome,
    )?;
    spec_is(node, CONFIRMED, "so does its resource", outcome)?;
    node.destroy(TYPE, ID)
}

fn is_over_in_time(node: &Node, running: &mut NodeUnderTest, outcome: &mut Outcome) -> Result<()> {
    begin(node, SHORT, TRIED, outcome)?;
    let began = Instant::now();
    let state = node.configure("GetTry", &json!({}))?;
    outcome.check("a try is running", state["running"] == true, || state.to_string());
    has(node, KEPT.1, "a try that nobody confirms is taken back", outcome)?;
    let took = began.elapsed();
    let is_in_time = took <= Duration::from_secs(SHORT.into()) + TOLERANCE;
    outcome.check("at its deadline", is_in_time, || format!("it took {took:?}"));
    running.wait_until_printed("the changes are taken back, as nobody confirmed them in time")?;
    let late = node.configure("ConfirmTry", &json!({}));
    outcome.check("a late confirmation is refused", late.is_err(), || "it is not".into());
    spec_is(node, KEPT, "the resource is that from before the try", outcome)?;
    has(node, KEPT.1, "and nothing sets it again", outcome)
}

/// A stopped process is one that hangs.
fn needs_no_osd(node: &Node, outcome: &mut Outcome) -> Result<()> {
    begin(node, SHORT, TRIED, outcome)?;
    node.signal("STOP")?;
    has(node, KEPT.1, "a try is taken back although osd hangs", outcome)?;
    node.signal("CONT")?;
    spec_is(node, KEPT, "osd agrees when it is back", outcome)
}

/// Begins a try, and changes the resource to this spec.
fn begin(
    node: &Node,
    seconds: u32,
    (spec, text): (&str, &str),
    outcome: &mut Outcome,
) -> Result<()> {
    node.configure("BeginTry", &json!({ "timeoutSeconds": seconds }))?;
    let found = node.resource(TYPE, ID)?;
    let version = found["metadata"]["version"].as_str().unwrap_or_default();
    node.update(TYPE, ID, version, spec)?;
    has(node, text, "a tried change has its effect", outcome)
}

fn has(node: &Node, text: &str, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let within = node.becomes(RESOLV_CONF, text)?;
    let found = node.read(RESOLV_CONF)?;
    outcome.check(claim, within.is_some(), || found);
    Ok(())
}

fn spec_is(node: &Node, (_, text): (&str, &str), claim: &str, outcome: &mut Outcome) -> Result<()> {
    let address = text.rsplit(' ').next().unwrap_or_default();
    let found = node.resource_with(TYPE, ID, |yaml| yaml.contains(address))?;
    outcome.check(claim, yaml(&found).contains(address), || found.to_string());
    Ok(())
}
