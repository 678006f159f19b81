//! The power button of a machine.

use super::data::place;
use super::machine::TIMEOUT;
use super::node::NodeUnderTest;
use super::probe::{self, free_port};
use super::qmp::Qmp;
use super::slots::change::Change;
use super::slots::disk::{A, SlotDisk};
use crate::check::Outcome;
use crate::disk_file;
use crate::image::ARM64;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild::plan::Architecture;
use osbuild_abi::console::SLOT_GOOD;
use serde_json::json;
use std::io::Write;
use std::time::{Duration, Instant};

/// Command line: seconds until the watchdog resets a machine whose `init` does not feed it, and a
/// kernel that writes nothing by itself, neither after a time nor when the pod's share of memory is
/// full of unwritten pages: all of them are left when the button is pressed.
const WORDS: &str = "osbuild.watchdog-s=20 sysctl.vm.dirty_writeback_centisecs=0 \
    sysctl.vm.dirty_background_ratio=60 sysctl.vm.dirty_ratio=80";

/// A pod's unflushed writes when the node ends, and the rate of the disk, which needs three times
/// the watchdog's timeout to write them.
const MIB: u64 = 12;
const BYTES_PER_SECOND: u64 = (MIB << 20) / 60;

/// Offset of ext4's `s_feature_incompat`, and its bit for a journal that has to be replayed.
const FEATURES: u64 = 1024 + 0x60;
const RECOVER: u8 = 4;

/// The disk is so slow that a pod's unflushed writes take three times as long as the watchdog's
/// timeout. After the power button the node ends in order: first the pods, then DATA with all
/// writes, then the machine.
pub fn it_ends_a_node_in_order(site: &Site) -> Result<Outcome> {
    let disk = SlotDisk::of_recipe(site, probe::RECIPE, "power-button")?;
    disk_file::copy(site, &disk.out("image.raw"), &disk.path())?;
    disk.fill(A, &Change { recipe: probe::RECIPE, words: WORDS, ..Change::default() })?;
    let (qmp, port) = (Qmp::new()?, free_port()?);
    let machine = disk.machine()?.arguments(qmp.arguments()).forward(port, probe::FILL);
    let mut node = machine.start()?;
    node.wait_for("resets the machine after 20 s")?;
    node.wait_for(SLOT_GOOD)?;
    let limits = json!({
        "device": "disk",
        "bps": 0, "bps_rd": 0, "bps_wr": BYTES_PER_SECOND,
        "iops": 0, "iops_rd": 0, "iops_wr": 0,
    });
    qmp.execute("block_set_io_throttle", limits)?;
    probe::command(port, |stream| write!(stream, "{MIB}"))?;
    let took = press(&mut node, &qmp)?;
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

/// The same with arm64, where the button is another device.
pub fn it_ends_a_node_with_arm64(site: &Site) -> Result<Outcome> {
    let disk = SlotDisk::of_recipe(site, ARM64, "power-button-arm64")?.with(Architecture::Arm64);
    let qmp = Qmp::new()?;
    let mut node = disk.machine()?.arguments(qmp.arguments()).start()?;
    node.wait_for_within(SLOT_GOOD, 3 * TIMEOUT)?;
    press(&mut node, &qmp)?;
    is_unmounted(&disk)?;
    Ok(Outcome { passed: 2, ..Outcome::default() })
}

/// Presses the button as a hypervisor does, waits until the machine is off, and returns how long
/// that took.
pub(super) fn press(node: &mut NodeUnderTest, qmp: &Qmp) -> Result<Duration> {
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
