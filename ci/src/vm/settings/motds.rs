//! A resource has the node show a message on its consoles.

use super::node::{Node, yaml};
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;

const MOTDS: &str = "Motds";
const STATUSES: &str = "MotdStatuses";
const ID: &str = "place";
const STATUS: &str = "node";
const SPEC: &str = "text: |\n  Rack 7, unit 12\n  Ask ops@example.org\n";
/// The last line of it on the console.
const SHOWN: &str = "init: motd: Ask ops@example.org";
/// The same type with text that erases a screen.
const ERASES: &str = r#"text: "\e[2J""#;

/// The console shows it above the summary, and no other text than printable one.
pub fn is_shown(node: &Node, running: &mut NodeUnderTest, outcome: &mut Outcome) -> Result<()> {
    let refused = node.create(MOTDS, ID, ERASES);
    let claim = "a message that controls a terminal is refused";
    outcome.check(claim, refused.is_err(), || "it is not".into());
    node.create(MOTDS, ID, SPEC)?;
    has_status(node, "source: api", "a resource sets the message on the consoles", outcome)?;
    running.wait_until_printed(SHOWN)
}

/// It is shown after a power cut, and goes with its resource.
pub fn outlasts_a_power_cut(
    node: &Node,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    has_status(node, "source: api", "a message outlasts a power cut", outcome)?;
    running.wait_until_printed(SHOWN)?;
    node.destroy(MOTDS, ID)?;
    has_status(node, "source: \"\"", "a message goes with its resource", outcome)
}

fn has_status(node: &Node, text: &str, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let status = node.resource_with(STATUSES, STATUS, |yaml| yaml.contains(text))?;
    outcome.check(claim, yaml(&status).contains(text), || status.to_string());
    Ok(())
}
