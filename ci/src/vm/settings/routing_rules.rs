//! Resources have packets from an address use a table of routes of its own.

use super::node::{Node, TIMEOUT, yaml};
use crate::check::Outcome;
use osbuild::error::Result;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The types, the identifier of the resources, and their specs. The gateway of the route is in the
/// subnet of the machine's own link.
const ROUTES: &str = "Routes";
const RULES: &str = "RoutingRules";
const STATUSES: &str = "RoutingRuleStatuses";
const ID: &str = "table";
const ROUTE: &str = "{link: eth0, destination: 198.51.100.0/24, gateway: 10.0.2.2, table: 100}";
const RULE: &str = "{priority: 2000, from: 203.0.113.7/32, table: 100}";
/// The kernel's tables, and the line with which it begins this one.
const FILE: &str = "/proc/net/fib_trie";
const LINE: &str = "Id 100:";
/// The pause before the tables are read again.
const PAUSE: Duration = Duration::from_millis(200);

/// The node has the table and the rule; one with a priority of the kernel is refused.
pub fn are_set(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(ROUTES, ID, ROUTE)?;
    node.create(RULES, ID, RULE)?;
    has_table(node, true, "a route makes its table", outcome)?;
    is_set(node, "a status says that the routing rule is set", outcome)?;
    let refused = node.create(RULES, "first", "{family: ipv4, priority: 0, table: 100}");
    let reason = refused.err().map(|error| format!("{error:?}")).unwrap_or_default();
    let holds = reason.contains("the `priority` of a routing rule is 2000 to 32765");
    outcome.check("a routing rule before that of the kernel is refused", holds, || reason);
    Ok(())
}

/// Both are there at the next boot, too, and go with their resources.
pub fn outlast_a_power_cut_and_go(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_table(node, true, "after a power cut there is the table", outcome)?;
    is_set(node, "after a power cut the routing rule is set", outcome)?;
    for type_name in [RULES, ROUTES] {
        node.destroy(type_name, ID)?;
    }
    has_table(node, false, "the table goes with its route", outcome)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    let claim = "the routing rule goes with its resource";
    outcome.check(claim, is_gone, || "it has a status".to_owned());
    Ok(())
}

fn is_set(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let holds = |yaml: &str| yaml.contains("set: true") && yaml.contains("family: ipv4");
    let status = node.resource_with(STATUSES, ID, holds)?;
    outcome.check(claim, holds(yaml(&status)), || status.to_string());
    Ok(())
}

fn has_table(node: &Node, expected: bool, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let began = Instant::now();
    loop {
        let tables = node.read(FILE)?;
        let holds = tables.lines().any(|line| line == LINE) == expected;
        if holds || began.elapsed() > TIMEOUT {
            outcome.check(claim, holds, || tables);
            return Ok(());
        }
        sleep(PAUSE);
    }
}
