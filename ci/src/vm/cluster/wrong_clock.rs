//! A node whose clock is wrong by a year, or by decades.

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
use osbuild::error::{Context, Result};
use osbuild::plan::Date;
use std::array;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The recipe that names the time servers.
const RECIPE: &str = "clocked";

/// Three agree before the node changes its clock by years.
const SERVERS: usize = 3;

/// The end of a line of `init` about the cluster, with a clock that is behind, and ahead.
const NOT_YET: &str = "its certificate is not valid yet by the node's clock";
const EXPIRED: &str = "its certificate has expired by the node's clock";

/// A year in seconds, and two days more: the lab's certificates are valid for a year.
const YEAR: u64 = 367 * 24 * 60 * 60;

/// The names of machines, their clocks at their start as QEMU reads them, and what `init` prints.
type Clock = (&'static str, String, &'static str);

/// The clock of a machine is a year or decades behind, or ahead, and no time server answers. The
/// console says why the node is not Ready. Once time servers answer, it is Ready, without a reboot.
pub fn a_node_joins_as_soon_as_it_knows_the_time(site: &Site) -> Result<Outcome> {
    let plane = ControlPlane::start(site)?;
    let mut cluster = Cluster { plane, outcome: Outcome::default() };
    let project = site.root.join("out/ci").join(RECIPE);
    site.copy_to(&project)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let clocks = clocks(now.or_build(|| "the clock of this host is wrong".to_owned())?.as_secs());
    for clock in &clocks {
        let node = joins(site, &mut cluster, &project, clock)?;
        cluster.plane.api().delete(&format!("/api/v1/nodes/{node}"))?;
    }
    cluster.outcome.summary = clocks.map(|(_, clock, _)| clock).join(", ");
    Ok(cluster.outcome)
}

/// The clocks of the machines, if it is `now`, in seconds since 1970.
fn clocks(now: u64) -> [Clock; 5] {
    let on = |seconds| format!("{}T00:00:00", Date::from_unix(seconds));
    [
        // The firmware takes the two digits of this year for 2070, and the kernel follows it.
        ("1970", on(0), EXPIRED),
        ("past", "2000-01-01T00:00:00".to_owned(), NOT_YET),
        ("last-year", on(now - YEAR), NOT_YET),
        ("next-year", on(now + YEAR), EXPIRED),
        ("future", "2060-01-01T00:00:00".to_owned(), EXPIRED),
    ]
}

/// Boots a machine with this clock, and returns the name of its node.
fn joins(
    site: &Site,
    cluster: &mut Cluster,
    project: &Path,
    (name, clock, reason): &Clock,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_are_outside_of_a_year_around_now() {
        let noon = 1_796_126_400;
        let clocks = clocks(noon).map(|(_, clock, _)| clock);
        let written = [
            "1970-01-01T00:00:00",
            "2000-01-01T00:00:00",
            "2025-11-29T00:00:00",
            "2027-12-03T00:00:00",
            "2060-01-01T00:00:00",
        ];
        assert_eq!(clocks, written);
    }
}
