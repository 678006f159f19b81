//! A node whose release on trial is not Ready in its cluster: it goes back, and whether the release
//! was at fault depends on what the older slot reaches.

use super::control_plane::{BIN, ControlPlane};
use super::joining::{PLACE, Ports, SAY, join};
use crate::check::Verdict;
use crate::site::Site;
use crate::vm::inside::PROBE;
use crate::vm::node::{answer, free_port};
use crate::vm::slots::change::{Change, Over};
use crate::vm::slots::disk::{A, Disk};
use crate::vm::slots::faults::Trial;
use crate::vm::slots::hears;
use osbuild::error::{Error, Result};
use osbuild::ship::keys::{DEV, Keys};
use osbuild::ship::vm::machine::Forward;
use osbuild::ship::vm::node::Node;
use osbuild::ship::vm::run::RunOptions;
use osbuild_abi::console::{READY, SLOT_GOOD, SLOT_LATE, SLOTBOOT_STARTS};
use osbuild_abi::paths::{CONTAINERD_CONFIG, UPDATE_SOCKET};
use osbuild_protocol::{Reply, Request, Slots};
use std::io::Write;
use std::time::Duration;

/// How long the node may take for each step.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How long a record on DATA may take to be on the disk.
const FLUSH: Duration = Duration::from_secs(3);

/// Both slots give up early, so that the check does not take a quarter of an hour.
const DEADLINE: &str = "osbuild.gate-deadline-s=120";

/// What `init` prints.
const IS_READY: &str = "is Ready in its cluster";
const WAITS: &str = "waits to be Ready in its cluster, as the slot before this one was";
const NEITHER: &str = "is not Ready in its cluster either";

/// A release whose containerd looks for network configurations in another folder is not Ready, and
/// its gate holds: it goes back, and as the older slot is Ready, it was at fault. Then the control
/// plane ends: a sound release goes back too, but the older slot is not Ready either, so the
/// release may be tried again.
pub fn a_release_that_loses_the_cluster_goes_back(site: &Site) -> Result<Verdict> {
    let plane = ControlPlane::start(site)?;
    let ports = Ports { place: free_port()?, say: free_port()? };
    let project = site.project();
    let keys = Keys::named(&project, DEV)?;
    let disk = Disk::of(site, project.join("out").join(PROBE), keys, "cluster-lost")?;
    let mut verdict = Verdict::default();

    let mut node = boot(&disk, &ports)?;
    node.hear(SLOT_GOOD, TIMEOUT)?;
    join(&plane, &project.join(BIN), &ports)?;
    node.hear(IS_READY, TIMEOUT)?;
    std::thread::sleep(FLUSH);
    node.power_off()?;
    disk.fill(A, &Change { recipe: PROBE, words: DEADLINE, ..Change::default() })?;

    let settings = include_str!("../../../../components/containerd/containerd.toml");
    let elsewhere = settings.replace("/etc/cni/net.d", "/run/no-networks");
    let over = &[(CONTAINERD_CONFIG, Over::Text(&elsewhere))];
    let mut node = goes_back(&disk, &ports, over)?;
    node.hear(IS_READY, TIMEOUT)?;
    let at_fault =
        if is_outage(&ports)? { Err("it may be tried again".to_owned()) } else { Ok(()) };
    verdict.claim(
        "a release that is not Ready in the cluster is at fault if the older one is",
        at_fault,
    );
    node.power_off()?;

    drop(plane);
    let mut node = goes_back(&disk, &ports, &[])?;
    node.hear(NEITHER, TIMEOUT)?;
    let outage = if is_outage(&ports)? { Ok(()) } else { Err("it counts as bad".to_owned()) };
    verdict
        .claim("a release without a cluster may be tried again if the older one has none", outage);
    node.power_off()?;
    Ok(verdict)
}

fn boot<'a>(disk: &'a Disk<'a>, ports: &Ports) -> Result<Node<'a>> {
    let forwards = [(ports.place, PLACE), (ports.say, SAY)];
    let forwards = forwards.map(|(host, node)| Forward { host, node }).to_vec();
    disk.boot_with(|options| RunOptions { forwards, ..options })
}

/// Boots a release with these files on trial, until the other slot is back. The record that the
/// slot before was Ready comes from its last boot.
fn goes_back<'a>(disk: &'a Disk<'a>, ports: &Ports, over: &[(&str, Over)]) -> Result<Node<'a>> {
    let change = Change { recipe: PROBE, words: DEADLINE, over, ..Change::default() };
    let mut trial = Trial::begin_on(disk, &change, || boot(disk, ports))?;
    trial.node.hear(READY, TIMEOUT)?;
    trial.node.hear(WAITS, TIMEOUT)?;
    trial.node.hear(SLOT_LATE, TIMEOUT)?;
    hears(&mut trial.node, SLOTBOOT_STARTS, &["SLOT-A"])?;
    Ok(trial.node)
}

/// Whether `init` answers the updater that the release in the other slot may be tried again.
fn is_outage(ports: &Ports) -> Result<bool> {
    let request = Request::SlotsStatus;
    let answer = answer(ports.say, |stream| write!(stream, "{UPDATE_SOCKET} {request}"))?;
    let lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    match Reply::decode(&request, &lines) {
        Ok(Reply::Slots(Slots::Known(slots))) => Ok(slots.is_outage),
        _ => Err(Error::build("`init` does not answer for its slots").cause(answer)),
    }
}
