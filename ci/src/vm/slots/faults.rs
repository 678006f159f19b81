//! Faults of a slot, on the disk or at run time, after which the machine boots the other slot by
//! itself.

use super::change::{Change, Over};
use super::disk::{A, B, SlotDisk};
use super::{BACKUP, GOOD, LAST_TRY, SECOND, SILENCE, SPENT};
use crate::vm::machine::{Machine, TIMEOUT};
use crate::vm::node::NodeUnderTest;
use crate::vm::power_button;
use crate::vm::probe::{self, free_port};
use crate::vm::qmp::Qmp;
use osbuild::error::{Error, Result};
use osbuild_abi::console::{
    ADDRESS, PANIC, READY, READY_WITHOUT_ADDRESS, SLOT, SLOT_GOOD, SLOT_LATE, SLOTBOOT_STARTS,
    SLOTBOOT_STOPPED,
};
use osbuild_abi::paths::{BIN, INIT, POD_LIST, POD_MANIFESTS, UPDATE_SOCKET};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_protocol::{Refusal, RefusalCode, Request};
use osbuild_slots::State;
use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

/// Makes a slot bad, and waits until the machine boots the other one.
pub type Fault = fn(&SlotDisk) -> Result<Fallback>;

/// Every fault at run time. Each needs a disk whose SLOT-A is good.
pub const ALL: [Fault; 9] =
    [panic, init_crash, hang, deadline, kubelet, unnamed, pod, network, boot_loop];

/// Command line of a kernel that finds neither a program to run nor a root, and restarts after one
/// second instead of ten.
const PANICS: &str = "rdinit=/nothing panic=1";

/// The message of `init` when no variable of the firmware has the slot's name.
const UNNAMED: &str = "the slot that was started is unknown";

/// The message of `init` when a slot lacks only an address.
const LACKS_ADDRESS: &str = "waits for an address, which the slot before this one had";

/// Command line of a slot that must be good within 40 s of power-on.
const SOON: &str = "osbuild.gate-deadline-s=40";

/// How long `init` waits before it marks a slot again that it could not mark.
const MARK_RETRY: Duration = Duration::from_secs(600);

/// A pod whose image does not exist.
const NEVER: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: never
spec:
  hostNetwork: true
  containers:
    - name: never
      image: localhost/never:1
      imagePullPolicy: Never
";

pub fn panic(disk: &SlotDisk) -> Result<Fallback> {
    let mut trial = Trial::begin(disk, &Change { words: PANICS, ..Change::default() })?;
    trial.node.wait_for("Kernel panic")?;
    trial.falls_back_and("a panic", |node| {
        node.wait_for_line(PANIC, &["No working init found", "see /var/log/panic.log"]).map(drop)
    })
}

pub fn deadline(disk: &SlotDisk) -> Result<Fallback> {
    let words = "osbuild.gate-hold-s=3600 osbuild.gate-deadline-s=20";
    let mut trial = Trial::begin(disk, &Change { words, ..Change::default() })?;
    trial.node.wait_for_line(SLOT, &["SLOT-B", "on trial, tries left: 0"])?;
    trial.node.wait_for(SLOT_LATE)?;
    trial.falls_back("a deadline of 20 s")
}

pub fn hang(disk: &SlotDisk) -> Result<Fallback> {
    let words = "osbuild.gate-hold-s=3600 osbuild.gate-deadline-s=3600 osbuild.watchdog-s=20";
    let (port, change) =
        (free_port()?, Change { recipe: probe::RECIPE, words, ..Change::default() });
    let mut trial = Trial::begin_on(disk, &change, |machine| machine.forward(port, probe::FREEZE))?;
    trial.node.wait_for(READY)?;
    probe::report(port)?;
    trial.since = Instant::now();
    trial.falls_back("an `init` that hangs, by a watchdog of 20 s")
}

pub fn init_crash(disk: &SlotDisk) -> Result<Fallback> {
    let over = &[(INIT, Over::Link("mount"))];
    let mut trial = Trial::begin(disk, &Change { over, ..Change::default() })?;
    trial.node.wait_for("Attempted to kill init")?;
    trial.falls_back("an `init` that ends")
}

pub fn kubelet(disk: &SlotDisk) -> Result<Fallback> {
    let kubelet = format!("{BIN}/kubelet");
    let over = &[(kubelet.as_str(), Over::Link("mount"))];
    let mut trial = Trial::begin(disk, &Change { over, words: SOON, ..Change::default() })?;
    trial.node.wait_for(SLOT_LATE)?;
    trial.falls_back("a kubelet that never runs, by a deadline of 40 s")
}

pub fn unnamed(disk: &SlotDisk) -> Result<Fallback> {
    let kubelet = format!("{BIN}/kubelet");
    let over = &[(kubelet.as_str(), Over::Link("mount"))];
    // Without the firmware's variables `init` cannot know which slot it runs.
    let words = format!("{SOON} efi=noruntime");
    let mut trial = Trial::begin(disk, &Change { over, words: &words, ..Change::default() })?;
    trial.node.wait_for(UNNAMED)?;
    trial.node.wait_for(SLOT_LATE)?;
    trial.falls_back("a slot that does not know its name, by a deadline of 40 s")
}

pub fn pod(disk: &SlotDisk) -> Result<Fallback> {
    let manifest = format!("{POD_MANIFESTS}/never.yaml");
    let over = &[(POD_LIST, Over::Text("never never\n")), (manifest.as_str(), Over::Text(NEVER))];
    let mut trial = Trial::begin(disk, &Change { over, words: SOON, ..Change::default() })?;
    trial.node.wait_for(SLOT_LATE)?;
    trial.falls_back("a pod that never runs, by a deadline of 40 s")
}

/// A release without a network, which the previous slot had.
pub fn network(disk: &SlotDisk) -> Result<Fallback> {
    disk.set(A, GOOD)?;
    disk.set(B, SPENT)?;
    // In an orderly shutdown, `init` first writes what the slot has reached. A power cut may come
    // before that.
    let qmp = Qmp::new()?;
    let mut node = disk.machine()?.arguments(qmp.arguments()).start()?;
    node.wait_for(ADDRESS)?;
    power_button::press(&mut node, &qmp)?;
    // The next machine cannot use the disk before this.
    drop(node);
    let manifest = format!("{POD_MANIFESTS}/dhcp.yaml");
    let over = &[(POD_LIST, Over::Text("time time\n")), (manifest.as_str(), Over::Text("\n"))];
    let words = "osbuild.gate-deadline-s=90";
    let mut trial = Trial::begin(disk, &Change { over, words, ..Change::default() })?;
    trial.node.wait_for(READY_WITHOUT_ADDRESS)?;
    trial.node.wait_for(LACKS_ADDRESS)?;
    trial.node.wait_for(SLOT_LATE)?;
    trial.falls_back("a release without a network, by a deadline of 90 s")
}

pub fn boot_loop(disk: &SlotDisk) -> Result<Fallback> {
    disk.fill(B, &Change { words: PANICS, ..Change::default() })?;
    disk.set(A, GOOD)?;
    disk.set(B, State { tries: 3, ..LAST_TRY })?;
    let mut node = disk.start()?;
    let since = Instant::now();
    for left in ["2", "1", "0"] {
        node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-B", &format!("on trial, tries left: {left}")])?;
        node.wait_for("Kernel panic")?;
    }
    Trial { disk, node, since }.falls_back("three panics, with the firmware's start")
}

pub fn truncated(disk: &SlotDisk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    // An update that wrote the header too early: the second half is old.
    disk.write(disk.offset(B)? + HEADER_SIZE + (30 << 20), &vec![0; 60 << 20])?;
    passes_over(disk, "the firmware refuses it")
}

pub fn flipped_header(disk: &SlotDisk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    disk.flip(disk.offset(B)? + 20)?;
    passes_over(disk, "the checksum of its header is wrong")
}

pub fn flipped_uki_header(disk: &SlotDisk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    let uki = disk.offset(B)? + HEADER_SIZE;
    let pe = disk.read(uki + 60, 4)?;
    // The image's time stamp, which only the signature covers.
    disk.flip(uki + u64::from(u32::from_le_bytes([pe[0], pe[1], pe[2], pe[3]])) + 8)?;
    passes_over(disk, "the firmware refuses it")
}

pub fn exchanged(disk: &SlotDisk) -> Result<String> {
    disk.fill(B, &Change { version: "0.0.2", ..Change::default() })?;
    disk.set(A, GOOD)?;
    disk.set(B, SECOND)?;
    let [a, b] = [disk.offset(A)?, disk.offset(B)?];
    let [in_a, in_b] = [disk.read(a, b - a)?, disk.read(b, b - a)?];
    disk.write(a, &in_b)?;
    disk.write(b, &in_a)?;
    let mut node = disk.start()?;
    node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-A 0.0.2: good"])?;
    node.wait_for_line(SLOT, &["SLOT-A, version 0.0.2"])?;
    node.power_off()?;
    disk.write(a, &in_a).map(|()| String::new())
}

/// A slot on trial refuses an update: neither the slot that the node would fall back to nor
/// slotboot, which starts both, may change.
pub fn update_on_trial(disk: &SlotDisk) -> Result<String> {
    let words = "osbuild.gate-hold-s=3600 osbuild.gate-deadline-s=3600";
    let (port, change) =
        (free_port()?, Change { recipe: probe::RECIPE, words, ..Change::default() });
    let mut trial = Trial::begin_on(disk, &change, |machine| machine.forward(port, probe::SOCKET))?;
    trial.node.wait_for(READY)?;
    let refusal = Refusal::new(RefusalCode::OnTrial, "SLOT-B is on trial");
    for request in [Request::OpenSlot, Request::ReplaceBootProgram, Request::TrySlot] {
        let reply = probe::ask_init(port, UPDATE_SOCKET, &request)?;
        if Refusal::decode(&reply).as_ref() != Some(&refusal) {
            let what = format!("a slot on trial does not refuse `{request}`");
            return Err(Error::build(what).cause(reply));
        }
    }
    trial.node.power_off()?;
    disk.is(B, SPENT)?;
    disk.is(A, GOOD).map(|()| String::new())
}

/// The disk refuses writes when `init` marks the slot, and accepts them later.
pub fn marked_later(disk: &SlotDisk) -> Result<String> {
    let words = "osbuild.gate-hold-s=20 osbuild.gate-deadline-s=3600";
    let (port, change) =
        (free_port()?, Change { recipe: probe::RECIPE, words, ..Change::default() });
    let mut trial = Trial::begin_on(disk, &change, |machine| machine.forward(port, probe::DISK))?;
    trial.node.wait_for(READY)?;
    probe::command(port, |stream| stream.write_all(b"read-only"))?;
    trial.node.wait_for("trial: write the partition table")?;
    probe::command(port, |stream| stream.write_all(b"writable"))?;
    let failed = Instant::now();
    let line = trial.node.wait_for_within(SLOT_GOOD, MARK_RETRY + TIMEOUT)?;
    if !line.contains("SLOT-B") {
        return Err(Error::build("another slot was marked").cause(line));
    }
    trial.node.power_off()?;
    disk.is(B, State { priority: LAST_TRY.priority, ..GOOD })?;
    disk.is_sound()?;
    Ok(format!(
        "marked {:.0} s after a disk that could not be written",
        failed.elapsed().as_secs_f64()
    ))
}

/// The only slot does not know its name, and becomes good.
pub fn unnamed_only_slot(disk: &SlotDisk) -> Result<String> {
    disk.fill(B, &Change { words: "efi=noruntime", ..Change::default() })?;
    disk.set(A, State::EMPTY)?;
    disk.set(B, State { priority: 1, ..LAST_TRY })?;
    let mut node = disk.start()?;
    node.wait_for(UNNAMED)?;
    node.wait_for_line(SLOT_GOOD, &["SLOT-B"])?;
    node.power_off()?;
    disk.is(B, State { priority: 1, ..GOOD }).map(|()| String::new())
}

/// Each slot has a UKI with a flipped bit.
pub fn both_damaged(disk: &SlotDisk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    disk.set(A, GOOD)?;
    disk.set(B, LAST_TRY)?;
    let bytes = [disk.offset(A)?, disk.offset(B)?].map(|start| start + HEADER_SIZE + (20 << 20));
    bytes.iter().try_for_each(|byte| disk.flip(*byte))?;
    let mut node = disk.start()?;
    node.wait_for_line(
        SLOTBOOT_STOPPED,
        &["SLOT-A: the firmware refuses it", "SLOT-B: the firmware refuses it"],
    )?;
    node.prints_nothing_after(SLOTBOOT_STOPPED, SILENCE)?;
    node.power_off()?;
    disk.flip(bytes[0]).map(|()| String::new())
}

pub fn damaged_tables(disk: &SlotDisk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    disk.set(A, GOOD)?;
    disk.set(B, SECOND)?;
    let end = disk.size()?;
    for (part, byte) in [
        ("header", 512 + 60),
        ("entries", 1024 + 200),
        ("backup's entries", end - BACKUP + 200),
        ("backup", end - 500),
    ] {
        disk.flip(byte)?;
        let mut node = disk.start()?;
        node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-A"])
            .map_err(|error| error.cause(format!("damaged was the {part}")))?;
        node.power_off()?;
        disk.is_sound()?;
    }
    Ok(String::new())
}

/// slotboot passes over the damaged SLOT-B and starts SLOT-A.
pub fn passes_over(disk: &SlotDisk, why: &str) -> Result<String> {
    disk.set(A, GOOD)?;
    disk.set(B, LAST_TRY)?;
    let mut node = disk.start()?;
    node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-A", &format!("passed over SLOT-B: {why}")])?;
    node.power_off()?;
    disk.is(B, SPENT)?;
    disk.is(A, GOOD).map(|()| String::new())
}

/// A fallback to the good slot.
pub struct Fallback {
    /// The fault of the other slot.
    pub from: &'static str,
    /// From the start of the bad slot, or from a later fault, until slotboot starts the good one.
    pub took: Duration,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fallback after {:.0} s from {}", self.took.as_secs_f64(), self.from)
    }
}

/// A machine that runs a slot with its last try.
pub struct Trial<'a> {
    disk: &'a SlotDisk<'a>,
    pub node: NodeUnderTest<'a>,
    since: Instant,
}

impl<'a> Trial<'a> {
    /// Starts a changed slot, beside a good one.
    pub fn begin(disk: &'a SlotDisk<'a>, change: &Change) -> Result<Self> {
        Self::begin_on(disk, change, |machine| machine)
    }

    /// Like [`Self::begin`], on another machine.
    pub fn begin_on(
        disk: &'a SlotDisk<'a>,
        change: &Change,
        machine: impl FnOnce(Machine<'a>) -> Machine<'a>,
    ) -> Result<Self> {
        disk.fill(B, change)?;
        disk.set(A, GOOD)?;
        disk.set(B, LAST_TRY)?;
        let mut node = machine(disk.machine()?).start()?;
        node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-B", "on trial, tries left: 0"])?;
        Ok(Trial { disk, node, since: Instant::now() })
    }

    /// Waits until the machine has restarted from the other slot.
    pub fn falls_back(self, from: &'static str) -> Result<Fallback> {
        self.falls_back_and(from, |_| Ok(()))
    }

    /// Like [`Self::falls_back`], and checks what the other slot does.
    fn falls_back_and(
        mut self,
        from: &'static str,
        check: impl FnOnce(&mut NodeUnderTest) -> Result<()>,
    ) -> Result<Fallback> {
        let line = self.node.wait_for(SLOTBOOT_STARTS)?;
        let took = self.since.elapsed();
        if !line.contains("SLOT-A") {
            return Err(Error::build("another slot was started").cause(line));
        }
        self.node.wait_for_line(SLOT, &["SLOT-A", "passed over SLOT-B: it has no tries left"])?;
        check(&mut self.node)?;
        self.node.power_off()?;
        self.disk.is(B, SPENT)?;
        self.disk.is(A, GOOD)?;
        self.disk.is_sound()?;
        Ok(Fallback { from, took })
    }
}
