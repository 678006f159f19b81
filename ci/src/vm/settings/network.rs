//! Resources set an address and a route of the node.

use super::node::{Node, TIMEOUT, yaml};
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The types, the identifier of the resources, and their specs. The route needs the address.
const ADDRESSES: &str = "Addresses";
const ROUTES: &str = "Routes";
const ID: &str = "static";
const ADDRESS: &str = "{link: eth0, address: 192.0.2.7/24}";
const ROUTE: &str = "{link: eth0, destination: 198.51.100.0/24, gateway: 192.0.2.1, metric: 77}";
/// The address as the console has it.
const ON_CONSOLE: &str = "192.0.2.7/24 on eth0";
/// The kernel's routes, and the start of the line with this one: destination and gateway in the
/// order of their bytes in memory (proc_net(5)).
const FILE: &str = "/proc/net/route";
const LINE: &str = "eth0\t006433C6\t010200C0\t";
/// How long a try lasts whose end the check waits for.
const TRY_SECONDS: u32 = 15;
/// The pause before the routes are read again.
const PAUSE: Duration = Duration::from_millis(200);

/// Both are set, the node has its address, and their statuses say so.
pub fn is_set(node: &Node, running: &mut NodeUnderTest, outcome: &mut Outcome) -> Result<()> {
    node.create(ADDRESSES, ID, ADDRESS)?;
    node.create(ROUTES, ID, ROUTE)?;
    running.wait_until_printed(ON_CONSOLE)?;
    has_route(node, true, "a static address has a static route", outcome)?;
    for statuses in ["AddressSettingStatuses", "RouteSettingStatuses"] {
        let is_set = |yaml: &str| yaml.contains("set: true");
        let status = node.resource_with(statuses, ID, is_set)?;
        let claim = format!("{statuses} say that it is set");
        outcome.check(&claim, is_set(yaml(&status)), || status.to_string());
    }
    Ok(())
}

pub fn outlasts_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_route(node, true, "a static address and route outlast a power cut", outcome)
}

/// A try takes them away, and nobody confirms that.
pub fn is_back_after_a_try(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.configure("BeginTry", &json!({ "timeoutSeconds": TRY_SECONDS }))?;
    for type_name in [ROUTES, ADDRESSES] {
        node.destroy(type_name, ID)?;
    }
    has_route(node, false, "a route goes with its resource", outcome)?;
    has_route(node, true, "a try that nobody confirms brings it back", outcome)?;
    // `osd` has its resources again.
    for type_name in [ROUTES, ADDRESSES] {
        node.resource(type_name, ID)?;
        node.destroy(type_name, ID)?;
    }
    has_route(node, false, "a route is gone for good then", outcome)
}

fn has_route(node: &Node, expected: bool, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let began = Instant::now();
    loop {
        let routes = node.read(FILE)?;
        let holds = routes.lines().any(|line| line.starts_with(LINE)) == expected;
        if holds || began.elapsed() > TIMEOUT {
            outcome.check(claim, holds, || routes);
            return Ok(());
        }
        sleep(PAUSE);
    }
}
