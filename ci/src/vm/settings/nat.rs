//! Resources have the node translate addresses of connections that go through it.

use super::node::{Node, yaml};
use super::{OF_NETWORK, was_repaired};
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe;
use osbuild::error::Result;
use std::io::Write;
use std::time::Duration;

const RULES: &str = "Nats";
const STATUSES: &str = "NatStatuses";
/// The rules by their identifiers: one for each action.
const ALL: [(&str, &str); 3] = [
    ("lan", "{name: lan, action: masquerade, link: eth0, sources: [10.8.0.0/24, 'fd00:8::/64']}"),
    ("fixed", "{name: fixed, action: source, link: eth0, sources: [10.8.0.5/32], to: 10.0.2.15}"),
    (
        "web",
        "{name: web, action: destination, link: eth0, protocol: tcp, port: 8080, \
         to: 10.8.0.5, toPort: 80}",
    ),
];
/// A rule of a link that the machine does not have.
const MODEM: (&str, &str) =
    ("modem", "{name: modem, action: masquerade, link: wwan0, sources: [10.8.0.0/24]}");
/// A rule that forwards a port at which no program listens to that of the pod `probe`.
const FORWARDED: (&str, &str) = (
    "facts",
    "{name: facts, action: destination, link: eth0, protocol: tcp, port: 8081, to: 10.0.2.15, \
     toPort: 7070}",
);
/// The port.
pub const FORWARDED_PORT: u16 = 8081;
/// Their table.
const TABLE: &str = "osbuild-nat";

/// The rules are set, and their table is back when another program removes it.
pub fn is_set(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for (id, spec) in ALL {
        node.create(RULES, id, spec)?;
        has_status(node, id, "set: true", outcome)?;
    }
    let took = probe::request(node.tables, |stream| write!(stream, "{TABLE}"))?;
    let within = took.parse().ok().map(Duration::from_millis);
    was_repaired("a table of NAT that is removed is back", within, OF_NETWORK, outcome);
    node.create(RULES, MODEM.0, MODEM.1)?;
    has_status(node, MODEM.0, "it waits for a link `wwan0`", outcome)?;
    for (port, owner) in [(50000, "the node API"), (10250, "the kubelet")] {
        let rule = format!(
            "{{name: own, action: destination, protocol: tcp, port: {port}, to: 10.8.0.5}}"
        );
        let refused = node.create(RULES, "own", &rule).err();
        let reason = refused.map(|error| format!("{error:?}")).unwrap_or_default();
        let holds = reason.contains(&format!("port {port} is that of {owner}"));
        outcome.check(&format!("a node does not forward the port of {owner}"), holds, || reason);
    }
    Ok(())
}

/// The console names the rule that waits for its link.
pub fn is_a_problem_without_its_link(
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    // A status while the links are made may name one of those.
    let line = running.wait_for("PROBLEM `nat modem` is not in effect")?;
    let holds = line.contains("`wwan0`");
    outcome.check("the console names a setting that is not in effect", holds, || line);
    Ok(())
}

/// Connections from outside to a port of the node reach the pod to which a rule forwards them, as
/// long as there is the rule.
pub fn forwards_a_port(node: &Node, outcome: &mut Outcome) -> Result<()> {
    let answers = || probe::answers(node.forwarded, probe::FACTS_TIMEOUT);
    outcome.check("without a rule nobody answers at a port", !answers(), String::new);
    let (id, spec) = FORWARDED;
    node.create(RULES, id, spec)?;
    has_status(node, id, "set: true", outcome)?;
    let report = probe::report(node.forwarded);
    let is_whole = report.as_ref().is_ok_and(|facts| facts.lines().count() > 10);
    outcome.check("the pod answers at the port that is forwarded to it", is_whole, || {
        format!("{report:?}")
    });
    node.destroy(RULES, id)?;
    let is_gone = node.is_gone(STATUSES, id)?;
    outcome.check("its status goes with the rule", is_gone, || "it has a status".to_owned());
    outcome.check("without the rule nobody answers there again", !answers(), String::new);
    Ok(())
}

/// The rules are set at the next boot, too, and their table goes with the last one.
pub fn outlasts_a_power_cut_and_goes(node: &Node, outcome: &mut Outcome) -> Result<()> {
    for (id, _) in ALL {
        has_status(node, id, "set: true", outcome)?;
    }
    for (id, _) in ALL.into_iter().chain([MODEM]) {
        node.destroy(RULES, id)?;
        let is_gone = node.is_gone(STATUSES, id)?;
        let claim = format!("the NAT rule `{id}` goes with its resource");
        outcome.check(&claim, is_gone, || "it has a status".to_owned());
    }
    let left = probe::request(node.tables, |stream| write!(stream, "{TABLE}"))?;
    let holds = left.contains("there is no table");
    outcome.check("without a NAT rule there is no table", holds, || left);
    Ok(())
}

fn has_status(node: &Node, id: &str, part: &str, outcome: &mut Outcome) -> Result<()> {
    let holds = |yaml: &str| yaml.contains(part);
    let status = node.resource_with(STATUSES, id, holds)?;
    let claim = format!("the status of the NAT rule `{id}` has `{part}`");
    outcome.check(&claim, holds(yaml(&status)), || status.to_string());
    Ok(())
}
