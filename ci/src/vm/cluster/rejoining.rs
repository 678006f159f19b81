//! A node whose certificate its cluster no longer accepts.

use super::control_plane::{BIN, ControlPlane};
use super::joining::{NodeFile, Ports, bridge, install, join};
use super::kubectl::Kubectl;
use super::{Cluster, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::kept_disk::KeptDisk;
use crate::vm::machine::Machine;
use crate::vm::probe::{self, free_port};
use osbuild::error::Result;
use osbuild_abi::paths::NODE_DOCUMENT;
use std::time::Duration;

/// How long the first certificate is valid: long enough to become Ready with it.
const LIFETIME: Duration = Duration::from_secs(120);

/// How long the node may take to write its certificate to the disk.
const FLUSH: Duration = Duration::from_secs(10);

/// A document with a mistake in its second line.
const MISTAKE: &str = "[kubelet]\ntaint = []\n";

/// Lines of `init`.
const REFUSED: &str = "is refused, the last accepted one stays in effect: line 2: unknown field";
const EXPIRED: &str =
    "the node's certificate has expired by the node's clock: it was valid until 20";
const OTHER_CA: &str = "its certificate is not from the CA that the node has";
const REPLACED: &str = "the node's certificate is from another cluster or CA";

/// The certificate of a node expires while the node is off, and its token is revoked. The console
/// says so, a document with a mistake changes nothing, and one with a fresh token makes the node
/// Ready. Then the cluster gets another CA. The console says so, and a document with that CA makes
/// the node Ready. It is the same node all the time.
pub fn a_node_comes_back_with_a_fresh_token_or_ca(site: &Site) -> Result<Outcome> {
    let plane = ControlPlane::with_lifetime(site, LIFETIME)?;
    let mut cluster = Cluster { plane, outcome: Outcome::default() };
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let kubelet = free_port()?;
    cluster.plane.egress().route(serving::ADDRESS, kubelet);
    let disk = KeptDisk::of(site, probe::RECIPE);
    let machine = |log: &str| -> Result<Machine> {
        let machine = Machine::of_recipe(site, probe::RECIPE, log)?.keep(disk.path());
        let machine = machine.forward(ports.place, probe::PLACE);
        Ok(machine.forward(ports.socket, probe::SOCKET).forward(kubelet, serving::PORT))
    };

    let mut node = machine("rejoining-first")?.boot()?;
    join(&cluster.plane, bridge(&site.project().join(BIN))?, &ports)?;
    let first = cluster.ready_node(&mut node, None)?;
    std::thread::sleep(FLUSH);
    node.power_off()?;
    cluster.plane.revoke_token()?;
    std::thread::sleep(LIFETIME);
    // The next certificate has to be valid still when the CA is replaced: the kubelet replaces an
    // expired one by itself.
    cluster.plane.use_default_lifetime(site)?;

    let mut node = machine("rejoining-expired")?.boot()?;
    node.wait_until_printed(EXPIRED)?;
    install(&[NodeFile::new(NODE_DOCUMENT, 0o600, MISTAKE)], &ports)?;
    node.wait_for(REFUSED)?;
    cluster.plane.issue_token()?;
    join(&cluster.plane, Vec::new(), &ports)?;
    let second = cluster.ready_node(&mut node, Some(&first))?;
    cluster.is_the_same(&first, &second)?;
    let name = text(&first, "/metadata/name");
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    serving::the_cluster_signs_it(&kubectl, name, &mut cluster.outcome)?;
    std::thread::sleep(FLUSH);
    node.power_off()?;

    cluster.plane.rotate_authority(site)?;
    let mut node = machine("rejoining-another-ca")?.boot()?;
    node.wait_until_printed(OTHER_CA)?;
    join(&cluster.plane, Vec::new(), &ports)?;
    node.wait_for(REPLACED)?;
    let third = cluster.ready_node(&mut node, Some(&second))?;
    cluster.is_the_same(&first, &third)?;
    serving::the_cluster_signs_it(&kubectl, name, &mut cluster.outcome)?;
    cluster.outcome.summary = format!("{name}, three certificates");
    Ok(cluster.outcome)
}
