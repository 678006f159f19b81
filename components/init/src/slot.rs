//! The slot that the node runs from: which one, why, what the other one is, and when it is a good
//! one.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use osbuild_abi::console::{SLOT, SLOT_GOOD};
use osbuild_abi::disk::ESP;
use osbuild_abi::paths::FIRMWARE_VARIABLES;
use osbuild_abi::slot::{HEADER_SIZE, VARIABLE, VENDOR};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{
    BootReport, Contents, Refusal, RefusalCode, Release, SlotState, SlotStatus, Slots, SlotsStatus,
};
use osbuild_slots::{Header, HeaderError, Mark, Slot, mark, other, slots};

use crate::disks::{self, Disk, Partition};
use crate::errand;
use crate::node::Node;
use crate::reached::{self, Held};
use crate::variable::volatile;
use rustix::fs::OFlags;

/// The name of the phase.
pub const NAME: &str = "slot";

/// The slot that the node was started from.
pub struct Running {
    /// What slotboot reported.
    pub booted: BootReport,
    /// The disk that it is on.
    disk: Disk,
}

/// What slotboot reported, if the firmware started it.
pub fn booted() -> Option<BootReport> {
    let variable =
        fs::read(Path::new(FIRMWARE_VARIABLES).join(format!("{VARIABLE}-{VENDOR}"))).ok()?;
    BootReport::decode(volatile(&variable)?)
}

/// Finds the slot, and says which it is and what the other one is.
pub fn find(node: &mut Node) -> Outcome {
    let booted = booted().ok_or_else(untold)?;
    let disk = node.disk.clone().filter(|disk| disk.guid == Some(booted.disk));
    let disk = disk.ok_or_else(|| Failure::new("DATA is not on the disk that was booted"))?;
    // What cannot be told of a slot leaves the node in no doubt which one it runs.
    let running = node.slot.insert(Running { booted, disk });
    for (slot, contents) in running.slots()? {
        let (name, what) = (slot.name, contents.words());
        match name == running.booted.slot {
            true => node.console.line(&format!("{SLOT}{name}, {what}: {}", running.booted.text)),
            false => node.console.say(
                NAME,
                format_args!("the other one is {name}, {what}: {}", state(&slot).words()),
            ),
        }
    }
    Ok(())
}

/// The slots, as `status` reports them.
pub fn status(node: &Node) -> Outcome<Slots> {
    let Some(running) = &node.slot else { return Ok(Slots::Unknown) };
    let BootReport { slot: name, started, passed, text: why, .. } = running.booted.clone();
    let (mut own, mut other) = (None, None);
    for (slot, contents) in running.slots()? {
        let status = SlotStatus { name: slot.name.to_owned(), state: state(&slot), contents };
        *(if slot.name == name { &mut own } else { &mut other }) = Some(status);
    }
    let running = own.ok_or_else(|| Failure::new(format!("the disk has no {name}")))?;
    let is_outage = other.as_ref().is_some_and(|other| {
        held_by(&other.name, &other.contents).is_some_and(|held| reached::is_outage(node, &held))
    });
    Ok(Slots::Known(SlotsStatus { why, started, passed, running, other, is_outage }))
}

/// Marks the slot that runs as a good one, and says so.
pub fn mark_good(node: &mut Node) -> Outcome {
    let (disk, name) = match (&node.slot, &node.disk) {
        (Some(running), _) => (&running.disk, running.booted.slot),
        (None, Some(disk)) => (disk, only(disk)?),
        (None, None) => return Err(untold()),
    };
    mark_on(disk, name, Mark::Good)?;
    node.console.line(&format!("{SLOT_GOOD}{name}"));
    Ok(())
}

/// Takes the other slot out of use, and opens it for whoever writes an update: its partition alone,
/// and for one at a time. Also says how many bytes it has room for.
pub fn open_other(node: &mut Node) -> Result<(OwnedFd, u64), Refusal> {
    let running = updatable(node)?;
    let (partition, name) = (running.other_partition()?, other(running.booted.slot));
    let device = partition.device();
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::EXCL.bits() as i32)
        .open(&device);
    let file = file.explain(format_args!("open {} alone", device.display()))?;
    let length = disks::size(&partition.name)?;
    mark_on(&running.disk, name, Mark::Bad)?;
    // As long as there is no header, what is written behind it counts for nothing.
    file.write_all_at(&[0; HEADER_SIZE as usize], 0)
        .and_then(|()| file.sync_all())
        .explain(format_args!("erase {name}"))?;
    reached::forget(node);
    node.console.say(NAME, format_args!("{name} is opened for an update"));
    Ok((file.into(), length))
}

/// What a slot holds, as [`reached`] knows it.
pub fn held(node: &Node, name: &str) -> Option<Held> {
    let slots = node.slot.as_ref()?.slots().ok()?;
    slots
        .iter()
        .find(|(slot, _)| slot.name == name)
        .and_then(|(_, contents)| held_by(name, contents))
}

fn held_by(name: &str, contents: &Contents) -> Option<Held> {
    match contents {
        Contents::Release(release) => Some(Held::new(name, &release.sha256)),
        _ => None,
    }
}

/// The device of the slot that does not run.
pub fn other_device(node: &Node) -> Result<PathBuf, Refusal> {
    Ok(updatable(node)?.other_partition()?.device())
}

/// The device of the system partition of the disk that was booted.
pub fn system_device(node: &Node) -> Result<PathBuf, Refusal> {
    let partitions = &updatable(node)?.disk.partitions;
    let system = partitions.iter().find(|partition| partition.label == ESP);
    system
        .map(Partition::device)
        .ok_or_else(|| Failure::new(format!("the disk has no partition {ESP}")).into())
}

/// Has the other slot booted next.
pub fn mark_for_try(node: &mut Node) -> Outcome {
    let running = running(node)?;
    let name = other(running.booted.slot);
    mark_on(&running.disk, name, Mark::ForTry)?;
    reached::forget(node);
    node.console.say(NAME, format_args!("{name} is booted next"));
    Ok(())
}

/// The slot that runs, unless it is on trial itself: until it is a good one, the other slot is what
/// the node falls back to.
fn updatable(node: &Node) -> Result<&Running, Refusal> {
    errand::may_begin(node)?;
    let running = running(node)
        .map_err(|failure| Refusal::new(RefusalCode::SlotUnknown, failure.to_string()))?;
    let reason = || format!("{} is on trial", running.booted.slot);
    match running.is_on_trial()? {
        true => Err(Refusal::new(RefusalCode::OnTrial, reason())),
        false => Ok(running),
    }
}

fn running(node: &Node) -> Outcome<&Running> {
    node.slot.as_ref().ok_or_else(untold)
}

fn untold() -> Failure {
    Failure::new("nothing tells which slot was started")
}

/// Whether the slot that runs still has to become a good one. Where nothing tells which one runs,
/// it may be any that has to.
pub fn is_on_trial(node: &Node) -> Outcome<bool> {
    match (&node.slot, &node.disk) {
        (Some(running), _) => running.is_on_trial(),
        (None, Some(disk)) => {
            Ok(states(disk)?.iter().any(|slot| slot.state.priority > 0 && !slot.state.successful))
        }
        (None, None) => Ok(false),
    }
}

/// Whether there is another slot to go back to. Where nothing tells which one runs, it is one that
/// was a good node.
pub fn has_other(node: &Node) -> Outcome<bool> {
    match (&node.slot, &node.disk) {
        (Some(running), _) => running.has_other(),
        (None, Some(disk)) => {
            Ok(states(disk)?.iter().any(|slot| slot.state.priority > 0 && slot.state.successful))
        }
        (None, None) => Ok(false),
    }
}

/// The slots as the partition table of a disk has them.
fn states(disk: &Disk) -> Outcome<Vec<Slot>> {
    Ok(slots(disk.label()?.0.table()))
}

/// The only slot of a disk that is ever booted: where nothing tells which one runs, it is taken to
/// be that.
fn only(disk: &Disk) -> Outcome<&'static str> {
    let booted: Vec<_> = states(disk)?
        .into_iter()
        .filter(|slot| slot.state.priority > 0)
        .map(|slot| slot.name)
        .collect();
    if let [only] = booted[..] { Ok(only) } else { Err(untold()) }
}

fn mark_on(disk: &Disk, name: &str, as_what: Mark) -> Outcome {
    let (label, _) = disk.label()?;
    let table = mark(label.table(), name, as_what)
        .ok_or_else(|| Failure::new(format!("{name} is gone")))?;
    disk.write(&label.change_to(&table).explain("change the partition table")?)
}

impl Running {
    fn is_on_trial(&self) -> Outcome<bool> {
        Ok(states(&self.disk)?
            .iter()
            .any(|slot| slot.name == self.booted.slot && !slot.state.successful))
    }

    fn has_other(&self) -> Outcome<bool> {
        let other = other(self.booted.slot);
        Ok(self.slots()?.iter().any(|(slot, contents)| {
            slot.name == other
                && slot.state.is_bootable()
                && matches!(contents, Contents::Release(_))
        }))
    }

    /// The partition of the other slot, as the kernel knows it.
    fn other_partition(&self) -> Outcome<Partition> {
        let name = other(self.booted.slot);
        let slot = states(&self.disk)?.into_iter().find(|slot| slot.name == name);
        self.partition(&slot.ok_or_else(|| Failure::new(format!("the disk has no {name}")))?)
            .cloned()
    }

    /// The partition of a slot, as the kernel knows it.
    fn partition(&self, slot: &Slot) -> Outcome<&Partition> {
        let partition =
            self.disk.partitions.iter().find(|partition| partition.number == slot.number);
        partition.ok_or_else(|| Failure::new(format!("the kernel shows no {}", slot.name)))
    }

    /// Both slots as they are on the disk now.
    fn slots(&self) -> Outcome<Vec<(Slot, Contents)>> {
        let look = |slot: Slot| {
            let header = self.header(&slot);
            let contents = header.map_or(Contents::Unreadable, |bytes| contents(&bytes));
            (slot, contents)
        };
        Ok(states(&self.disk)?.into_iter().map(look).collect())
    }

    /// The bytes of a slot's header. An update is written through the partition, and what was read
    /// through the whole disk before would not show it.
    fn header(&self, slot: &Slot) -> Outcome<Vec<u8>> {
        let device = self.partition(slot)?.device();
        let mut bytes = vec![0; HEADER_SIZE as usize];
        let read = File::open(&device).and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.explain(format_args!("read {}", device.display())).map(|()| bytes)
    }
}

/// What a slot holds whose header has these bytes.
fn contents(header: &[u8]) -> Contents {
    match Header::parse(header) {
        Ok(header) => {
            let sha256 = header.sha256[..6].iter().map(|byte| format!("{byte:02x}")).collect();
            Contents::Release(Release { version: header.version, sha256 })
        }
        Err(HeaderError::Empty) => Contents::Empty,
        Err(error) => Contents::Damaged(error.to_string()),
    }
}

fn state(slot: &Slot) -> SlotState {
    match slot.state {
        state if state.priority == 0 => SlotState::NotBootable,
        state if state.successful => SlotState::Good,
        state => SlotState::OnTrial { tries_left: state.tries },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_slots::State;

    #[test]
    fn a_slot_is_described_by_version_and_digest() {
        let header = Header { length: 1, sha256: [0xAB; 32], version: "1.35.8".to_owned() };
        let mut bytes = header.encode().unwrap();
        let said = |bytes: &[u8]| contents(bytes).words();
        assert_eq!(said(&bytes), "version 1.35.8, sha256 abababababab");
        bytes[20] ^= 1;
        assert_eq!(said(&bytes), "damaged (the checksum of its header is wrong)");
        assert_eq!(said(&[0; 4096]), "empty");
    }

    #[test]
    fn a_slot_is_good_on_trial_or_not_to_be_booted() {
        let said = |priority, tries, successful| {
            let state = State { priority, tries, successful };
            let slot = Slot {
                name: "SLOT-A",
                guid: uuid::Uuid::nil(),
                number: 2,
                first: 1,
                sectors: 1,
                state,
            };
            super::state(&slot).words()
        };
        assert_eq!(said(1, 14, false), "on trial, tries left: 14");
        assert_eq!(said(2, 0, true), "good");
        assert_eq!(said(0, 0, true), "not to be booted");
    }
}
