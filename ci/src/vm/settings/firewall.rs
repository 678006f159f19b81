//! Resources close the node but for the ports that the check uses.

use super::node::{Node, yaml};
use super::{OF_NETWORK, was_repaired};
use crate::check::Outcome;
use crate::vm::probe;
use osbuild::error::Result;
use std::io::Write;
use std::time::Duration;

const RULES: &str = "FirewallRules";
const STATUSES: &str = "FirewallRuleStatuses";
/// The rules by their identifiers. The first one is set before the second closes the rest.
const ALL: [(&str, &str); 2] = [
    (
        "checks",
        "{name: checks, action: accept, protocol: tcp, sources: [10.0.2.0/24], \
         ports: [7076, 7078, 7089, 7091-7097, 7099, 50000]}",
    ),
    ("rest", "{name: rest, action: drop}"),
];
/// Their table.
const TABLE: &str = "osbuild";
/// The table that needs no setting.
const METADATA_TABLE: &str = "osbuild-metadata";

/// They close the port of the probe that reports facts. A table that another program removes is
/// back.
pub fn closes_a_port(node: &Node, outcome: &mut Outcome) -> Result<()> {
    is_open(node, true, "without a rule a port of the node answers", outcome);
    for (id, spec) in ALL {
        node.create(RULES, id, spec)?;
        let is_set = |yaml: &str| yaml.contains("set: true");
        let status = node.resource_with(STATUSES, id, is_set)?;
        let claim = format!("a status says that the firewall rule `{id}` is set");
        outcome.check(&claim, is_set(yaml(&status)), || status.to_string());
    }
    is_open(node, false, "a closed node does not answer at another port", outcome);
    let took = probe::request(node.tables, |stream| write!(stream, "{TABLE}"))?;
    let within = took.parse().ok().map(Duration::from_millis);
    was_repaired("a table of rules that is removed is back", within, OF_NETWORK, outcome);
    is_open(node, false, "the port is closed again then", outcome);
    let took = probe::request(node.tables, |stream| write!(stream, "{METADATA_TABLE}"))?;
    let within = took.parse().ok().map(Duration::from_millis);
    let claim = "the table that keeps pods from a cloud's metadata is back, too";
    was_repaired(claim, within, OF_NETWORK, outcome);
    let refused = node.create(RULES, "other", "{name: other, action: accept}").err();
    let reason = refused.map(|error| format!("{error:?}")).unwrap_or_default();
    let holds = reason.contains("are both about all other packets");
    outcome.check("a second rule about the rest is refused", holds, || reason);
    Ok(())
}

/// The port is closed at the next boot, too, and open when the rules are gone.
pub fn outlasts_a_power_cut_and_goes(node: &Node, outcome: &mut Outcome) -> Result<()> {
    is_open(node, false, "after a power cut the port is closed", outcome);
    for (id, _) in ALL.into_iter().rev() {
        node.destroy(RULES, id)?;
        let is_gone = node.is_gone(STATUSES, id)?;
        let claim = format!("the firewall rule `{id}` goes with its resource");
        outcome.check(&claim, is_gone, || "it has a status".to_owned());
    }
    is_open(node, true, "without the rules the port answers again", outcome);
    let left = probe::request(node.tables, |stream| write!(stream, "{TABLE}"))?;
    let holds = left.contains("there is no table");
    outcome.check("without a rule there is no table", holds, || left);
    Ok(())
}

/// Checks whether the port answers.
fn is_open(node: &Node, expected: bool, claim: &str, outcome: &mut Outcome) {
    let found = probe::answers(node.facts, probe::FACTS_TIMEOUT);
    outcome.check(claim, found == expected, || format!("it answers: {found}"));
}
