//! A node whose clock is wrong by years.

use super::control_plane::{BIN, ControlPlane};
use super::joining::{Ports, bridge, join};
use super::{Cluster, TIMEOUT, text};
use crate::check::Outcome;
use crate::image::image_in;
use crate::recipe;
use crate::site::Site;
use crate::vm::machine::Machine;
use crate::vm::probe::{self, free_port};
use crate::vm::time_server::TimeServer;
use osbuild::error::Result;
use std::array;
use std::path::Path;

/// The recipe that names the time servers.
const RECIPE: &str = "clocked";

/// Three agree before the node changes its clock by years.
const SERVERS: usize = 3;

/// A machine's clock at its start, and what `init` prints of the cluster.
const CLOCKS: [(&str, &str, &str); 2] = [
    ("past", "2000-01-01T00:00:00", "its certificate is not valid yet by the node's clock"),
    ("future", "2060-01-01T00:00:00", "its certificate has expired by the node's clock"),
];

/// The clock of one machine is decades behind, that of the other decades ahead, and no time server
/// answers. The console says why the node is not Ready. Once time servers answer, it is Ready,
/// without a reboot.
pub fn a_node_joins_as_soon_as_it_knows_the_time(site: &Site) -> Result<Outcome> {
    let plane = ControlPlane::start(site)?;
    let mut cluster = Cluster { plane, outcome: Outcome::default() };
    let project = site.root.join("out/ci").join(RECIPE);
    site.copy_to(&project)?;
    for (name, clock, reason) in CLOCKS {
        let node = joins(site, &mut cluster, &project, name, clock, reason)?;
        cluster.plane.api().delete(&format!("/api/v1/nodes/{node}"))?;
    }
    cluster.outcome.summary = CLOCKS.map(|(_, clock, _)| clock).join(", ");
    Ok(cluster.outcome)
}

/// Boots a machine with this clock, and returns the name of its node.
fn joins(
    site: &Site,
    cluster: &mut Cluster,
    project: &Path,
    name: &str,
    clock: &str,
    reason: &str,
) -> Result<String> {
    let servers: [Result<TimeServer>; SERVERS] = array::from_fn(|_| TimeServer::quiet());
    let servers = servers.into_iter().collect::<Result<Vec<_>>>()?;
    let addresses: Vec<_> =
        servers.iter().map(|server| format!("\"{}\"", server.address())).collect();
    let more = format!("\ntime-servers = [{}]\n", addresses.join(", "));
    recipe::inherit(site, project, RECIPE, probe::RECIPE, &more)?;
    let image = image_in(site, project, RECIPE)?;
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let mut node = Machine::new(site, image, &format!("wrong-clock-{name}"))
        .arguments(["-rtc".to_owned(), format!("base={clock}")])
        .forward(ports.place, probe::PLACE)
        .forward(ports.socket, probe::SOCKET)
        .boot()?;
    join(&cluster.plane, bridge(&site.project().join(BIN))?, &ports)?;
    node.wait_for_within(reason, TIMEOUT)?;
    cluster.outcome.passed += 1;
    servers.iter().for_each(TimeServer::answer);
    let ready = cluster.ready_node(&mut node, None)?;
    node.power_off()?;
    Ok(text(&ready, "/metadata/name").to_owned())
}
