//! How a node ends when somebody presses its power button, and how it replaces a daemon that hangs.

use super::data::place;
use super::inside::PROBE;
use super::node::{answer, ask, free_port, tell};
use super::qmp::Qmp;
use super::slots::change::Change;
use super::slots::disk::{A, Disk};
use crate::check::Verdict;
use crate::image::ARM64;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild::plan::Architecture;
use osbuild::ship::keys::{DEV, Keys};
use osbuild::ship::vm::machine::Forward;
use osbuild::ship::vm::node::Node;
use osbuild::ship::vm::run::RunOptions;
use osbuild_abi::console::{READY, SLOT_GOOD};
use osbuild_abi::paths::ADMIN_SOCKET;
use osbuild_protocol::Request;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the machine may take for what is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// Where the probe tells facts, says something to `init`, writes without a flush, and sends a
/// signal.
const FACTS: u16 = 7070;
const SAY: u16 = 7076;
const FILL: u16 = 7088;
const SIGNAL: u16 = 7089;

/// After how many seconds the watchdog resets a machine whose `init` does not hold it off.
const WATCHDOG: &str = "osbuild.watchdog-s=20";

/// How much a pod has written without a flush when the node ends, and how fast its disk takes that:
/// in three times the watchdog's time.
const MIB: u64 = 12;
const BYTES_A_SECOND: u64 = (MIB << 20) / 60;

/// How long a daemon may hang until another one runs, by the README of `init`.
const REPLACED: Duration = Duration::from_secs(180);

/// How long a daemon has been running before it has to answer.
const START_TIME: Duration = Duration::from_secs(120);

/// Where ext4 says what has to be understood to mount it, and the bit of that for a journal that
/// has to be replayed.
const FEATURES: u64 = 1024 + 0x60;
const RECOVER: u8 = 4;

/// The button is pressed when the disk is so slow that what a pod has written takes three times as
/// long as the watchdog waits. The node ends in order: the pods first, then DATA with all that was
/// written, then the machine.
pub fn a_pressed_power_button_ends_a_node_in_order(site: &Site) -> Result<Verdict> {
    let disk = disk(site, PROBE, "ends")?;
    let mut copy = Command::new("cp");
    copy.arg("--sparse=always").arg(disk.out("image.raw")).arg(disk.path());
    site.finish("ends-copy", &mut copy)?;
    disk.fill(A, &Change { recipe: PROBE, words: WATCHDOG, ..Change::default() })?;
    let (qmp, port) = (Qmp::new()?, free_port()?);
    let mut node = boot(&disk, &qmp, &[Forward { host: port, node: FILL }])?;
    node.hear("resets the machine after 20 s", PATIENCE)
        .and_then(|_| node.hear(SLOT_GOOD, PATIENCE))?;
    let limits = json!({ "device": "disk", "bps": 0, "bps_rd": 0, "bps_wr": BYTES_A_SECOND, "iops": 0, "iops_rd": 0, "iops_wr": 0 });
    qmp.execute("block_set_io_throttle", limits)?;
    tell(port, |stream| write!(stream, "{MIB}"))?;
    let took = power_off(&mut node, &qmp)?;
    // Whoever flushes on the way, a pod's end or DATA's, waits for all of it.
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
        return Err(Error::build(format!(
            "DATA lacks what a pod has written: {} bytes are there",
            text.len()
        )));
    }
    Ok(Verdict {
        passed: 3,
        said: format!("{:.0} s with a watchdog of 20 s", took.as_secs_f64()),
        ..Verdict::default()
    })
}

/// So it is with arm64, whose button is another device.
pub fn a_pressed_power_button_ends_a_node_with_arm64(site: &Site) -> Result<Verdict> {
    let disk = disk(site, ARM64, "ends-arm64")?.with(Architecture::Arm64);
    let qmp = Qmp::new()?;
    let mut node = boot(&disk, &qmp, &[])?;
    node.hear(SLOT_GOOD, 3 * PATIENCE)?;
    power_off(&mut node, &qmp)?;
    is_unmounted(&disk)?;
    Ok(Verdict { passed: 2, ..Verdict::default() })
}

/// A kubelet and then a containerd that stand still are replaced in time, and the pods go on.
pub fn a_daemon_that_hangs_is_replaced(site: &Site) -> Result<Verdict> {
    let disk = disk(site, PROBE, "hangs")?;
    let (qmp, facts, say, signal) = (Qmp::new()?, free_port()?, free_port()?, free_port()?);
    let forwards =
        [(facts, FACTS), (say, SAY), (signal, SIGNAL)].map(|(host, node)| Forward { host, node });
    let mut node = boot(&disk, &qmp, &forwards)?;
    node.hear(READY, PATIENCE)?;
    let ready = Instant::now();
    node.hear(SLOT_GOOD, PATIENCE)?;
    let pods = shims(&ask(facts)?);
    let mut said = Vec::new();
    for daemon in ["kubelet", "containerd"] {
        let before = process(say, daemon)?;
        // One that was just started need not answer yet.
        std::thread::sleep(START_TIME.saturating_sub(ready.elapsed()));
        tell(signal, |stream| write!(stream, "{daemon} STOP"))?;
        let since = Instant::now();
        node.hear(&format!("init: health: {daemon} has given no answer"), REPLACED)?;
        while process(say, daemon).is_ok_and(|now| now == before || !now.contains("running")) {
            if since.elapsed() > REPLACED {
                return Err(Error::build(format!(
                    "{daemon} stood still and was not replaced in {REPLACED:?}"
                )));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        said.push(format!("{daemon} {:.0} s", since.elapsed().as_secs_f64()));
    }
    let left = shims(&ask(facts)?);
    if pods.is_empty() || pods != left {
        return Err(Error::build("not all pods went on").cause(format!("{pods:?} became {left:?}")));
    }
    node.power_off()?;
    Ok(Verdict { passed: 3, said: said.join(", "), ..Verdict::default() })
}

fn disk<'a>(site: &'a Site<'a>, recipe: &str, log: &'static str) -> Result<Disk<'a>> {
    let project = site.project();
    site.finish("ends-build", site.osbuild()?.args(["build", recipe, "--yes"]))?;
    Disk::of(site, project.join("out").join(recipe), Keys::named(&project, DEV)?, log)
}

fn boot<'a>(disk: &'a Disk, qmp: &Qmp, forwards: &[Forward]) -> Result<Node<'a>> {
    disk.boot_with(|options| RunOptions {
        arguments: qmp.arguments(),
        forwards: forwards.to_vec(),
        ..options
    })
}

/// Presses the button, as the host of a virtual machine does, and waits until the machine is off.
/// Gives how long that took.
fn power_off(node: &mut Node, qmp: &Qmp) -> Result<Duration> {
    let since = Instant::now();
    qmp.execute("system_powerdown", json!({}))?;
    for line in [
        "init: power-button: was pressed",
        "init: shutdown: begins",
        "init: shutdown: unmounts",
        "init: shutdown: power off",
    ] {
        node.hear(line, PATIENCE)?;
    }
    node.end()?;
    Ok(since.elapsed())
}

/// DATA was unmounted: its journal holds nothing.
fn is_unmounted(disk: &Disk) -> Result<()> {
    let features = disk.read(place(&disk.path())?.start + FEATURES, 1)?[0];
    if features & RECOVER == 0 { Ok(()) } else { Err(Error::build("DATA was not unmounted")) }
}

/// What `init` says of a daemon.
fn process(say: u16, daemon: &str) -> Result<String> {
    let status = answer(say, |stream| write!(stream, "{ADMIN_SOCKET} {}", Request::Status))?;
    let line = status.lines().find(|line| line.starts_with(&format!("{daemon} ")));
    line.map(str::to_owned).ok_or_else(|| {
        Error::build(format!("`status` says nothing of {daemon}")).cause(status.clone())
    })
}

/// The process ids of the shims, by the probe's facts: one a pod.
fn shims(facts: &str) -> BTreeSet<String> {
    let shim = |line: &str| {
        line.strip_prefix("host containerd-shim-runc-v2 ")?.split(' ').next().map(str::to_owned)
    };
    facts.lines().filter_map(shim).collect()
}
