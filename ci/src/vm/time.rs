//! The node's clock.

use super::machine::Machine;
use super::time_server::TimeServer;
use crate::check::Outcome;
use crate::image::{RECIPE, image_in};
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Error, Result};
use std::time::Duration;

/// The recipe that names a time server.
const TIMED: &str = "timed";

/// How far the server's clock is ahead of this host's, and so of the node's.
const AHEAD: Duration = Duration::from_secs(3600);

/// Start and end of the line on the console. The machine's clock can be wrong by a second or two.
const CLOCK_SET: &str = "init: time: the clock was set forward by 3";
const UNCONFIRMED: &str = " s: 1 of 1 server, fewer than 3: unconfirmed";

/// On a network whose DHCP server names no time server, such as QEMU's, the node asks the recipe's
/// server, sets its clock, and prints that no second server confirms the time.
pub fn a_node_asks_the_time_server_of_its_recipe(site: &Site) -> Result<Outcome> {
    let server = TimeServer::ahead(AHEAD)?;
    let project = site.root.join("out/ci").join(TIMED);
    site.copy_to(&project)?;
    recipe::inherit(
        site,
        &project,
        TIMED,
        RECIPE,
        &format!("\ntime-servers = [\"{}\"]\n", server.address()),
    )?;
    let image = image_in(site, &project, TIMED)?;
    let mut node = Machine::new(site, image, TIMED).start()?;
    let line = node.wait_for(CLOCK_SET)?;
    node.power_off()?;
    if line.trim_end().ends_with(UNCONFIRMED) {
        Ok(Outcome::holds(line))
    } else {
        Err(Error::build("the node does not print that the time is unconfirmed").cause(line))
    }
}
