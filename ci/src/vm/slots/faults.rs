//! What can be wrong with a slot, on the disk or when it runs, and that the other one is back
//! without anybody there.

use super::change::{Change, Over};
use super::disk::{A, B, Disk};
use super::{BACKUP, GOOD, LAST_TRY, PATIENCE, SECOND, SPENT, hears};
use crate::vm::inside::PROBE;
use crate::vm::node::{answer, ask, free_port, tell};
use osbuild::error::{Error, Result};
use osbuild::ship::vm::machine::Forward;
use osbuild::ship::vm::node::Node;
use osbuild_abi::console::{
    ADDRESS, READY, READY_WITHOUT_ADDRESS, SLOT, SLOT_GOOD, SLOT_LATE, SLOTBOOT_STARTS,
    SLOTBOOT_STOPPED,
};
use osbuild_abi::paths::{BIN, INIT, POD_LIST, POD_MANIFESTS, UPDATE_SOCKET};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_protocol::{Refusal, RefusalCode, Request};
use osbuild_slots::State;
use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

/// Makes a slot bad, and waits until the other one is back.
pub type Fault = fn(&Disk) -> Result<Back>;

/// Every fault that shows when the slot runs. All of them want a disk whose SLOT-A is good.
pub const ALL: [Fault; 9] =
    [panic, init_crash, hang, deadline, kubelet, untold, pod, network, boot_loop];

/// Words for a kernel that finds neither a program to run nor a root, and waits one second instead
/// of ten.
const PANICS: &str = "rdinit=/nothing panic=1";

/// Where the probe freezes PID 1, where it says something to `init`, and where it makes the disk
/// read-only or writable.
const FREEZE: u16 = 7072;
const SAY: u16 = 7076;
const DISK: u16 = 7077;

/// What `init` says where no variable of the firmware has the slot's name.
const UNTOLD: &str = "nothing tells which slot was started";

/// What `init` says when an address is all that a slot lacks.
const LACKS_ADDRESS: &str = "waits for an address, which the slot before this one had";

/// Words for a slot that has to be good soon, seconds after power-on.
const SOON: &str = "osbuild.gate-deadline-s=40";

/// How long after a slot could not be marked `init` tries again.
const MARKED_AGAIN: Duration = Duration::from_secs(600);

/// A pod whose image is nowhere.
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

pub fn panic(disk: &Disk) -> Result<Back> {
    let mut trial = Trial::begin(disk, &Change { words: PANICS, ..Change::default() })?;
    trial.node.hear("Kernel panic", PATIENCE)?;
    trial.comes_back("a panic")
}

pub fn deadline(disk: &Disk) -> Result<Back> {
    let words = "osbuild.gate-hold-s=3600 osbuild.gate-deadline-s=20";
    let mut trial = Trial::begin(disk, &Change { words, ..Change::default() })?;
    hears(&mut trial.node, SLOT, &["SLOT-B", "on trial, tries left: 0"])?;
    trial.node.hear(SLOT_LATE, PATIENCE)?;
    trial.comes_back("a deadline of 20 s")
}

pub fn hang(disk: &Disk) -> Result<Back> {
    let words = "osbuild.gate-hold-s=3600 osbuild.gate-deadline-s=3600 osbuild.watchdog-s=20";
    let (port, probe) = (free_port()?, Change { recipe: PROBE, words, ..Change::default() });
    let mut trial = Trial::begin_on(disk, &probe, || {
        disk.boot_forwarding(Forward { host: port, node: FREEZE })
    })?;
    trial.node.hear(READY, PATIENCE)?;
    ask(port)?;
    trial.since = Instant::now();
    trial.comes_back("an `init` that stands still, by a watchdog of 20 s")
}

pub fn init_crash(disk: &Disk) -> Result<Back> {
    let over = &[(INIT, Over::Link("mount"))];
    let mut trial = Trial::begin(disk, &Change { over, ..Change::default() })?;
    trial.node.hear("Attempted to kill init", PATIENCE)?;
    trial.comes_back("an init that ends")
}

pub fn kubelet(disk: &Disk) -> Result<Back> {
    let kubelet = format!("{BIN}/kubelet");
    let over = &[(kubelet.as_str(), Over::Link("mount"))];
    let mut trial = Trial::begin(disk, &Change { over, words: SOON, ..Change::default() })?;
    trial.node.hear(SLOT_LATE, PATIENCE)?;
    trial.comes_back("a kubelet that never runs, by a deadline of 40 s")
}

pub fn untold(disk: &Disk) -> Result<Back> {
    let kubelet = format!("{BIN}/kubelet");
    let over = &[(kubelet.as_str(), Over::Link("mount"))];
    // Without the firmware's variables nothing tells `init` which slot it runs.
    let words = format!("{SOON} efi=noruntime");
    let mut trial = Trial::begin(disk, &Change { over, words: &words, ..Change::default() })?;
    trial.node.hear(UNTOLD, PATIENCE)?;
    trial.node.hear(SLOT_LATE, PATIENCE)?;
    trial.comes_back("a slot that does not know its name, by a deadline of 40 s")
}

pub fn pod(disk: &Disk) -> Result<Back> {
    let manifest = format!("{POD_MANIFESTS}/never.yaml");
    let over = &[(POD_LIST, Over::Text("never never\n")), (manifest.as_str(), Over::Text(NEVER))];
    let mut trial = Trial::begin(disk, &Change { over, words: SOON, ..Change::default() })?;
    trial.node.hear(SLOT_LATE, PATIENCE)?;
    trial.comes_back("a pod that never runs, by a deadline of 40 s")
}

/// A release that loses the network, which the slot before it has.
pub fn network(disk: &Disk) -> Result<Back> {
    disk.set(A, GOOD)?;
    disk.set(B, SPENT)?;
    let mut node = disk.boot()?;
    node.hear(ADDRESS, PATIENCE)?;
    node.power_off()?;
    let manifest = format!("{POD_MANIFESTS}/dhcp.yaml");
    let over = &[(POD_LIST, Over::Text("time time\n")), (manifest.as_str(), Over::Text("\n"))];
    let words = "osbuild.gate-deadline-s=90";
    let mut trial = Trial::begin(disk, &Change { over, words, ..Change::default() })?;
    trial.node.hear(READY_WITHOUT_ADDRESS, PATIENCE)?;
    trial.node.hear(LACKS_ADDRESS, PATIENCE)?;
    trial.node.hear(SLOT_LATE, PATIENCE)?;
    trial.comes_back("a release without a network, by a deadline of 90 s")
}

pub fn boot_loop(disk: &Disk) -> Result<Back> {
    disk.fill(B, &Change { words: PANICS, ..Change::default() })?;
    disk.set(A, GOOD)?;
    disk.set(B, State { tries: 3, ..LAST_TRY })?;
    let mut node = disk.boot()?;
    let since = Instant::now();
    for left in ["2", "1", "0"] {
        hears(&mut node, SLOTBOOT_STARTS, &["SLOT-B", &format!("on trial, tries left: {left}")])?;
        node.hear("Kernel panic", PATIENCE)?;
    }
    Trial { disk, node, since }.comes_back("three panics, with the firmware's start")
}

pub fn truncated(disk: &Disk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    // What an update leaves that wrote the header too early: the second half is what was there
    // before.
    disk.write(disk.start(B)? + HEADER_SIZE + (30 << 20), &vec![0; 60 << 20])?;
    passes_over(disk, "the firmware refuses it")
}

pub fn flipped_header(disk: &Disk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    disk.flip(disk.start(B)? + 20)?;
    passes_over(disk, "the checksum of its header is wrong")
}

pub fn flipped_uki_header(disk: &Disk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    let uki = disk.start(B)? + HEADER_SIZE;
    let pe = disk.read(uki + 60, 4)?;
    // The image's time, which nothing but the signature looks at.
    disk.flip(uki + u64::from(u32::from_le_bytes([pe[0], pe[1], pe[2], pe[3]])) + 8)?;
    passes_over(disk, "the firmware refuses it")
}

pub fn exchanged(disk: &Disk) -> Result<String> {
    disk.fill(B, &Change { version: "0.0.2", ..Change::default() })?;
    disk.set(A, GOOD)?;
    disk.set(B, SECOND)?;
    let [a, b] = [disk.start(A)?, disk.start(B)?];
    let [in_a, in_b] = [disk.read(a, b - a)?, disk.read(b, b - a)?];
    disk.write(a, &in_b)?;
    disk.write(b, &in_a)?;
    let mut node = disk.boot()?;
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-A 0.0.2: good"])?;
    hears(&mut node, SLOT, &["SLOT-A, version 0.0.2"])?;
    node.power_off()?;
    disk.write(a, &in_a).map(|()| String::new())
}

/// The node falls back to the other slot, and both start from the same slotboot: nobody gets to
/// change either.
pub fn asked_for_an_update(disk: &Disk) -> Result<String> {
    let words = "osbuild.gate-hold-s=3600 osbuild.gate-deadline-s=3600";
    let (port, probe) = (free_port()?, Change { recipe: PROBE, words, ..Change::default() });
    let mut trial =
        Trial::begin_on(disk, &probe, || disk.boot_forwarding(Forward { host: port, node: SAY }))?;
    trial.node.hear(READY, PATIENCE)?;
    let refusal = Refusal::new(RefusalCode::OnTrial, "SLOT-B is on trial");
    for request in [Request::OpenSlot, Request::ReplaceBootProgram, Request::TrySlot] {
        let reply = answer(port, |stream| write!(stream, "{UPDATE_SOCKET} {request}"))?;
        if Refusal::decode(&reply).as_ref() != Some(&refusal) {
            let what = format!("a slot on trial does not refuse `{request}`");
            return Err(Error::build(what).cause(reply));
        }
    }
    trial.node.power_off()?;
    disk.is(B, SPENT)?;
    disk.is(A, GOOD).map(|()| String::new())
}

/// The disk takes no write when the slot is to be marked, and takes them again later.
pub fn marked_later(disk: &Disk) -> Result<String> {
    let words = "osbuild.gate-hold-s=20 osbuild.gate-deadline-s=3600";
    let (port, probe) = (free_port()?, Change { recipe: PROBE, words, ..Change::default() });
    let mut trial =
        Trial::begin_on(disk, &probe, || disk.boot_forwarding(Forward { host: port, node: DISK }))?;
    trial.node.hear(READY, PATIENCE)?;
    tell(port, |stream| stream.write_all(b"read-only"))?;
    trial.node.hear("trial: write the partition table", PATIENCE)?;
    tell(port, |stream| stream.write_all(b"writable"))?;
    let failed = Instant::now();
    let line = trial.node.hear(SLOT_GOOD, MARKED_AGAIN + PATIENCE)?;
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

/// The only slot there is does not know its name, and becomes a good one.
pub fn untold_alone(disk: &Disk) -> Result<String> {
    disk.fill(B, &Change { words: "efi=noruntime", ..Change::default() })?;
    disk.set(A, State::EMPTY)?;
    disk.set(B, State { priority: 1, ..LAST_TRY })?;
    let mut node = disk.boot()?;
    node.hear(UNTOLD, PATIENCE)?;
    hears(&mut node, SLOT_GOOD, &["SLOT-B"])?;
    node.power_off()?;
    disk.is(B, State { priority: 1, ..GOOD }).map(|()| String::new())
}

/// Each slot has a UKI with a flipped bit.
pub fn both_damaged(disk: &Disk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    disk.set(A, GOOD)?;
    disk.set(B, LAST_TRY)?;
    let bytes = [disk.start(A)?, disk.start(B)?].map(|start| start + HEADER_SIZE + (20 << 20));
    bytes.iter().try_for_each(|byte| disk.flip(*byte))?;
    let mut node = disk.boot()?;
    hears(
        &mut node,
        SLOTBOOT_STOPPED,
        &["SLOT-A: the firmware refuses it", "SLOT-B: the firmware refuses it"],
    )?;
    node.power_off()?;
    disk.flip(bytes[0]).map(|()| String::new())
}

pub fn damaged_tables(disk: &Disk) -> Result<String> {
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
        let mut node = disk.boot()?;
        hears(&mut node, SLOTBOOT_STARTS, &["SLOT-A"])
            .map_err(|error| error.cause(format!("damaged was the {part}")))?;
        node.power_off()?;
        disk.is_sound()?;
    }
    Ok(String::new())
}

/// A slot that is damaged leads to the other one, which needs no more than slotboot's word.
pub fn passes_over(disk: &Disk, why: &str) -> Result<String> {
    disk.set(A, GOOD)?;
    disk.set(B, LAST_TRY)?;
    let mut node = disk.boot()?;
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-A", &format!("passed over SLOT-B: {why}")])?;
    node.power_off()?;
    disk.is(B, SPENT)?;
    disk.is(A, GOOD).map(|()| String::new())
}

/// A node that is back in its good slot.
pub struct Back {
    /// What was wrong with the other one.
    pub from: &'static str,
    /// From the start of that slot, or from the fault if it is made later, until slotboot starts
    /// the good one.
    pub took: Duration,
}

impl fmt::Display for Back {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "back after {:.0} s from {}", self.took.as_secs_f64(), self.from)
    }
}

/// A machine that runs a slot with its last try.
pub struct Trial<'a> {
    disk: &'a Disk<'a>,
    pub node: Node<'a>,
    since: Instant,
}

impl<'a> Trial<'a> {
    /// Starts a changed slot, beside a good one.
    pub fn begin(disk: &'a Disk, change: &Change) -> Result<Self> {
        Self::begin_on(disk, change, || disk.boot())
    }

    /// The same on a machine that is powered on otherwise.
    pub fn begin_on(
        disk: &'a Disk,
        change: &Change,
        boot: impl FnOnce() -> Result<Node<'a>>,
    ) -> Result<Self> {
        disk.fill(B, change)?;
        disk.set(A, GOOD)?;
        disk.set(B, LAST_TRY)?;
        let mut node = boot()?;
        hears(&mut node, SLOTBOOT_STARTS, &["SLOT-B", "on trial, tries left: 0"])?;
        Ok(Trial { disk, node, since: Instant::now() })
    }

    /// The machine restarts by itself, from the other slot.
    pub fn comes_back(mut self, from: &'static str) -> Result<Back> {
        let line = self.node.hear(SLOTBOOT_STARTS, PATIENCE)?;
        let took = self.since.elapsed();
        if !line.contains("SLOT-A") {
            return Err(Error::build("another slot was started").cause(line));
        }
        hears(&mut self.node, SLOT, &["SLOT-A", "passed over SLOT-B: it has no tries left"])?;
        self.node.power_off()?;
        self.disk.is(B, SPENT)?;
        self.disk.is(A, GOOD)?;
        self.disk.is_sound()?;
        Ok(Back { from, took })
    }
}
