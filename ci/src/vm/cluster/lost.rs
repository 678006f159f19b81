//! A node whose release on trial is not Ready in its cluster: it falls back, and whether the
//! release was at fault depends on what the older slot reaches.

use super::control_plane::{BIN, ControlPlane};
use super::joining::{Ports, bridge, join};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use crate::vm::slots::change::{Change, Over};
use crate::vm::slots::disk::{A, SlotDisk};
use crate::vm::slots::faults::Trial;
use osbuild::error::Result;
use osbuild_abi::console::{READY, SLOT_GOOD, SLOT_LATE, SLOTBOOT_STARTS};
use osbuild_abi::paths::CONTAINERD_CONFIG;
use std::time::Duration;

/// How long a record on DATA may take to reach the disk.
const FLUSH: Duration = Duration::from_secs(3);

/// Command line of both slots: an early deadline, so that the check does not take a quarter of an
/// hour.
const DEADLINE: &str = "osbuild.gate-deadline-s=120";

/// Lines of `init`.
const IS_READY: &str = "is Ready in its cluster";
pub const WAITS: &str = "waits to be Ready in its cluster, as the slot before this one was";
const NEITHER: &str = "is not Ready in its cluster either";

/// A release whose containerd reads network configurations from another folder is not Ready, and
/// its gate holds: it falls back, and as the older slot is Ready, it was at fault. Then the control
/// plane ends: a sound release falls back too, but the older slot is not Ready either, so the
/// release may be tried again.
pub fn a_release_that_loses_the_cluster_goes_back(site: &Site) -> Result<Outcome> {
    let plane = ControlPlane::start(site)?;
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let project = site.project();
    let disk = SlotDisk::of_recipe(site, probe::RECIPE, "cluster-lost")?;
    let mut outcome = Outcome::default();

    let mut node = with_ports(disk.machine()?, &ports).start()?;
    node.wait_for(SLOT_GOOD)?;
    join(&plane, bridge(&project.join(BIN))?, &ports)?;
    node.wait_for(IS_READY)?;
    std::thread::sleep(FLUSH);
    node.power_off()?;
    disk.fill(A, &Change { recipe: probe::RECIPE, words: DEADLINE, ..Change::default() })?;

    let over = &[(CONTAINERD_CONFIG, Over::Text(&without_networks()))];
    let mut node = falls_back(&disk, &ports, over)?;
    node.wait_for(IS_READY)?;
    let at_fault =
        if is_outage(&ports)? { Err("it may be tried again".to_owned()) } else { Ok(()) };
    outcome.claim(
        "a release that is not Ready in the cluster is at fault if the older one is",
        at_fault,
    );
    node.power_off()?;

    drop(plane);
    let mut node = falls_back(&disk, &ports, &[])?;
    node.wait_for(NEITHER)?;
    let outage = if is_outage(&ports)? { Ok(()) } else { Err("it counts as bad".to_owned()) };
    outcome
        .claim("a release without a cluster may be tried again if the older one has none", outage);
    node.power_off()?;
    Ok(outcome)
}

/// The settings of a containerd that reads network configurations from another folder.
pub fn without_networks() -> String {
    let settings = include_str!("../../../../components/containerd/containerd.toml");
    settings.replace("/etc/cni/net.d", "/run/no-networks")
}

fn with_ports<'a>(machine: Machine<'a>, ports: &Ports) -> Machine<'a> {
    machine.forward(ports.place, probe::PLACE).forward(ports.socket, probe::SOCKET)
}

/// Boots a release with these files on trial, until the machine starts the other slot. The record
/// that the slot before was Ready comes from its last boot.
fn falls_back<'a>(
    disk: &'a SlotDisk<'a>,
    ports: &Ports,
    over: &[(&str, Over)],
) -> Result<NodeUnderTest<'a>> {
    let change = Change { recipe: probe::RECIPE, words: DEADLINE, over, ..Change::default() };
    let mut trial = Trial::begin_on(disk, &change, |machine| with_ports(machine, ports))?;
    trial.node.wait_for(READY)?;
    trial.node.wait_for(WAITS)?;
    trial.node.wait_for(SLOT_LATE)?;
    trial.node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-A"])?;
    Ok(trial.node)
}

/// Whether `init` answers the updater that the release in the other slot may be tried again.
fn is_outage(ports: &Ports) -> Result<bool> {
    Ok(probe::slots(ports.socket)?.is_outage)
}
