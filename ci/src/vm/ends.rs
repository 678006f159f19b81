//! The end of a node whose power button is pressed, and of daemons that hang.

use super::data::place;
use super::machine::TIMEOUT;
use super::node::NodeUnderTest;
use super::probe::{self, free_port};
use super::qmp::Qmp;
use super::slots::change::Change;
use super::slots::disk::{A, SlotDisk};
use crate::check::Outcome;
use crate::image::ARM64;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild::plan::Architecture;
use osbuild::ship::keys::{DEV, Keys};
use osbuild_abi::console::{READY, SLOT_GOOD};
use osbuild_abi::paths::ADMIN_SOCKET;
use osbuild_protocol::Request;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

/// Command line: seconds until the watchdog resets a machine whose `init` does not answer it.
const WATCHDOG: &str = "osbuild.watchdog-s=20";

/// Unflushed writes of a pod when the node ends, and the disk's rate: three times the watchdog's
/// timeout.
const MIB: u64 = 12;
const BYTES_A_SECOND: u64 = (MIB << 20) / 60;

/// How long a daemon may hang until `init` has replaced it, by the README of `init`.
const REPLACED_WITHIN: Duration = Duration::from_secs(180);

/// How long a daemon may run before it has to answer health checks.
const GRACE_PERIOD: Duration = Duration::from_secs(120);

/// Offset of ext4's `s_feature_incompat`, and its bit for a journal that has to be replayed.
const FEATURES: u64 = 1024 + 0x60;
const RECOVER: u8 = 4;

/// The disk is so slow that a pod's unflushed writes take three times as long as the watchdog's
/// timeout. After the power button the node ends in order: first the pods, then DATA with all
/// writes, then the machine.
pub fn a_pressed_power_button_ends_a_node_in_order(site: &Site) -> Result<Outcome> {
    let disk = disk(site, probe::RECIPE, "ends")?;
    let mut copy = Command::new("cp");
    copy.arg("--sparse=always").arg(disk.out("image.raw")).arg(disk.path());
    site.finish("ends-copy", &mut copy)?;
    disk.fill(A, &Change { recipe: probe::RECIPE, words: WATCHDOG, ..Change::default() })?;
    let (qmp, port) = (Qmp::new()?, free_port()?);
    let machine = disk.machine()?.arguments(qmp.arguments()).forward(port, probe::FILL);
    let mut node = machine.start()?;
    node.wait_for("resets the machine after 20 s")?;
    node.wait_for(SLOT_GOOD)?;
    let limits = json!({
        "device": "disk",
        "bps": 0, "bps_rd": 0, "bps_wr": BYTES_A_SECOND,
        "iops": 0, "iops_rd": 0, "iops_wr": 0,
    });
    qmp.execute("block_set_io_throttle", limits)?;
    probe::command(port, |stream| write!(stream, "{MIB}"))?;
    let took = power_off(&mut node, &qmp)?;
    // The first flush, at the end of a pod or of DATA, waits for all writes.
    if took < Duration::from_secs(40) {
        return Err(Error::build(format!(
            "the node has ended after {took:?}: its disk was not slow"
        )));
    }
    is_unmounted(&disk)?;
    let data = disk.data()?;
    let text = data.read("filled")?.unwrap_or_default();
    if text.len() as u64 != MIB << 20
        || !text.lines().enumerate().all(|(number, line)| line == format!("{number:015}"))
    {
        return Err(Error::build(format!("DATA has {} bytes of a pod's writes", text.len())));
    }
    Ok(Outcome {
        passed: 3,
        summary: format!("{:.0} s with a watchdog of 20 s", took.as_secs_f64()),
        ..Outcome::default()
    })
}

/// The same with arm64, whose button is another device.
pub fn a_pressed_power_button_ends_a_node_with_arm64(site: &Site) -> Result<Outcome> {
    let disk = disk(site, ARM64, "ends-arm64")?.with(Architecture::Arm64);
    let qmp = Qmp::new()?;
    let mut node = disk.machine()?.arguments(qmp.arguments()).start()?;
    node.wait_for_within(SLOT_GOOD, 3 * TIMEOUT)?;
    power_off(&mut node, &qmp)?;
    is_unmounted(&disk)?;
    Ok(Outcome { passed: 2, ..Outcome::default() })
}

/// A stopped kubelet and then a stopped containerd are replaced in time, and the pods go on.
pub fn a_daemon_that_hangs_is_replaced(site: &Site) -> Result<Outcome> {
    let disk = disk(site, probe::RECIPE, "hangs")?;
    let (facts, socket, signal) = (free_port()?, free_port()?, free_port()?);
    let machine = disk.machine()?.forward(facts, probe::FACTS).forward(socket, probe::SOCKET);
    let mut node = machine.forward(signal, probe::SIGNAL).start()?;
    node.wait_for(READY)?;
    let ready = Instant::now();
    node.wait_for(SLOT_GOOD)?;
    let pods = shims(&probe::report(facts)?);
    let mut times = Vec::new();
    for daemon in ["kubelet", "containerd"] {
        let before = status_of(socket, daemon)?;
        std::thread::sleep(GRACE_PERIOD.saturating_sub(ready.elapsed()));
        probe::command(signal, |stream| write!(stream, "{daemon} STOP"))?;
        let since = Instant::now();
        node.wait_for_within(
            &format!("init: health: {daemon} has given no answer"),
            REPLACED_WITHIN,
        )?;
        while status_of(socket, daemon).is_ok_and(|now| now == before || !now.contains("running")) {
            if since.elapsed() > REPLACED_WITHIN {
                return Err(Error::build(format!(
                    "{daemon} hung and was not replaced within {REPLACED_WITHIN:?}"
                )));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        times.push(format!("{daemon} {:.0} s", since.elapsed().as_secs_f64()));
    }
    let left = shims(&probe::report(facts)?);
    if pods.is_empty() || pods != left {
        return Err(Error::build("not all pods went on").cause(format!("{pods:?} became {left:?}")));
    }
    node.power_off()?;
    Ok(Outcome { passed: 3, summary: times.join(", "), ..Outcome::default() })
}

fn disk<'a>(site: &'a Site<'a>, recipe: &str, log: &'static str) -> Result<SlotDisk<'a>> {
    let project = site.project();
    site.finish("ends-build", site.osbuild()?.args(["build", recipe, "--yes"]))?;
    SlotDisk::of(site, project.join("out").join(recipe), Keys::named(&project, DEV)?, log)
}

/// Presses the button as a hypervisor does, waits until the machine is off, and returns how long
/// that took.
fn power_off(node: &mut NodeUnderTest, qmp: &Qmp) -> Result<Duration> {
    let since = Instant::now();
    qmp.execute("system_powerdown", json!({}))?;
    for line in [
        "init: power-button: was pressed",
        "init: shutdown: begins",
        "init: shutdown: unmounts",
        "init: shutdown: power off",
    ] {
        node.wait_for(line)?;
    }
    node.end()?;
    Ok(since.elapsed())
}

/// DATA was unmounted: its journal is empty.
fn is_unmounted(disk: &SlotDisk) -> Result<()> {
    let features = disk.read(place(&disk.path())?.start + FEATURES, 1)?[0];
    if features & RECOVER == 0 { Ok(()) } else { Err(Error::build("DATA was not unmounted")) }
}

/// The line of `status` about a daemon.
fn status_of(port: u16, daemon: &str) -> Result<String> {
    let status = probe::ask_init(port, ADMIN_SOCKET, &Request::Status)?;
    let line = status.lines().find(|line| line.starts_with(&format!("{daemon} ")));
    line.map(str::to_owned).ok_or_else(|| {
        Error::build(format!("`status` has no line about {daemon}")).cause(status.clone())
    })
}

/// The process ids of the shims, one per pod, from the probe's report.
fn shims(facts: &str) -> BTreeSet<String> {
    let shim = |line: &str| {
        line.strip_prefix("host containerd-shim-runc-v2 ")?.split(' ').next().map(str::to_owned)
    };
    facts.lines().filter_map(shim).collect()
}
