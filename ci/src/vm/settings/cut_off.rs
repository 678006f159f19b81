//! A change over the network after which the node is not reached, and one after which it is.

use super::node::Node;
use super::remote::{Osctl, SERVES};
use crate::check::Outcome;
use crate::vm::node::NodeUnderTest;
use osbuild::error::Result;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Leads packets for this host, as the node sees it, to a machine that does not exist.
const CUTS_OFF: &str = "type: Route\nid: away\nspec: {link: eth0, destination: 10.0.2.2/32, \
                        gateway: 10.0.2.99}\n";
/// Leads packets there that nobody misses.
const HARMLESS: &str = "type: Route\nid: elsewhere\nspec: {link: eth0, destination: \
                        198.51.100.0/24, gateway: 10.0.2.2}\n";

/// How long that is tried while nothing can take it back, and what `init` reports then.
const TRY: &str = "20s";
const HANGS: &str = "nothing takes the changes of the network back";

/// The routes that are left at last, as osctl lists them.
const LEFT: &str = "Routes.osbuild/elsewhere\n";

/// How long the node may take to be reached again after osctl has given up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The pause before the node is asked again.
const PAUSE: Duration = Duration::from_secs(2);

/// The node takes back what cuts it off, and keeps what does not, without being asked.
pub fn is_taken_back(osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let apply = |name: &str, text: &str| osctl.run(&["apply", "-f", &osctl.write(name, text)?]);
    let kept = apply("elsewhere", HARMLESS)?;
    let is_kept = kept.code == Some(0) && kept.output.contains("the changes are kept");
    outcome.check("a route that cuts nothing off is kept", is_kept, || kept.output);
    let lost = apply("away", CUTS_OFF)?;
    let is_lost = lost.code == Some(1) && lost.output.contains("it takes the changes back");
    outcome.check("osctl reports that it has cut the node off", is_lost, || lost.output);
    let began = Instant::now();
    let routes = loop {
        let ran = osctl.run(&["get", "routes", "-o", "name"])?;
        // `osd` learns a few seconds later than the network that the change was taken back.
        if ran.output == LEFT || began.elapsed() > TIMEOUT {
            break ran;
        }
        sleep(PAUSE);
    };
    let is_back = routes.output == LEFT;
    outcome.check("the node takes that back, and nothing else", is_back, || routes.output);
    let state = osctl.finish(&["try"])?;
    outcome.check("and the try is over", state == "none\n", || state.clone());
    osctl.finish(&["delete", "route", "elsewhere", "--no-try"]).map(drop)
}

/// The pod that configures links hangs when a try is over: the node reboots, and is without it.
pub fn ends_although_nothing_takes_it_back(
    node: &Node,
    osctl: &Osctl,
    running: &mut NodeUnderTest,
    outcome: &mut Outcome,
) -> Result<()> {
    osctl.finish(&["apply", "-f", &osctl.write("elsewhere", HARMLESS)?, "--try", TRY])?;
    let routes = || osctl.finish(&["get", "routes", "-o", "name"]);
    let tried = routes()?;
    outcome.check("a tried route is there", tried == LEFT, || tried.clone());
    node.signal_to("dhcp", "STOP")?;
    running.wait_for(HANGS)?;
    running.wait_for(SERVES)?;
    let left = routes()?;
    let claim = "the node reboots to be without a route that a hung pod does not take back";
    outcome.check(claim, left.is_empty(), || left.clone());
    Ok(())
}
