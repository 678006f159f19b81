//! The slot that the node runs from: which one, why, what the other one is, and when it is a good
//! one.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use osbuild_abi::console::{SLOT, SLOT_GOOD};
use osbuild_abi::disk::ESP;
use osbuild_abi::paths::FIRMWARE_VARIABLES;
use osbuild_abi::slot::{HEADER_SIZE, VARIABLE, VENDOR};
use osbuild_abi::sockets::update;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_slots::{Booted, Header, HeaderError, Mark, Slot, mark, other, slots};

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
    /// What slotboot said.
    pub booted: Booted,
    /// The disk that it is on.
    disk: Disk,
}

/// What a slot holds: nothing, or what its header speaks of. An error says why that cannot be told.
type Holds = Result<Option<Header>, String>;

/// What slotboot said, if it was what the firmware started.
pub fn booted() -> Option<Booted> {
    let variable =
        fs::read(Path::new(FIRMWARE_VARIABLES).join(format!("{VARIABLE}-{VENDOR}"))).ok()?;
    Booted::parse(volatile(&variable)?)
}

/// Finds the slot, and says which it is and what the other one is.
pub fn find(node: &mut Node) -> Outcome {
    let booted = booted().ok_or_else(untold)?;
    let disk = node.disk.clone().filter(|disk| disk.guid == Some(booted.disk));
    let disk = disk.ok_or_else(|| Failure::new("DATA is not on the disk that was booted"))?;
    // What cannot be told of a slot leaves the node in no doubt which one it runs.
    let running = node.slot.insert(Running { booted, disk });
    for (slot, holds) in running.slots()? {
        let (name, what) = (slot.name, contents(&holds));
        match name == running.booted.slot {
            true => node.console.line(&format!("{SLOT}{name}, {what}: {}", running.booted.why)),
            false => node
                .console
                .say(NAME, format_args!("the other one is {name}, {what}: {}", state(&slot))),
        }
    }
    Ok(())
}

/// What `status` says of the slots: lines with their ends.
pub fn status(node: &Node) -> Outcome<String> {
    let Some(running) = &node.slot else { return Ok("slot unknown\n".to_owned()) };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "slot {}", running.booted.slot);
    let _ = writeln!(text, "slot-why {}", running.booted.why);
    for (slot, holds) in running.slots()? {
        let which = if slot.name == running.booted.slot { "running" } else { "other" };
        let _ =
            writeln!(text, "slot-{which} {}, {}: {}", slot.name, contents(&holds), state(&slot));
        if digest(&holds)
            .is_some_and(|digest| reached::is_outage(node, &Held::new(slot.name, &digest)))
        {
            let _ = writeln!(text, "{}{}", update::OUTAGE, slot.name);
        }
    }
    Ok(text)
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
pub fn open_other(node: &mut Node) -> Outcome<(OwnedFd, u64)> {
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
        .and_then(|(_, holds)| Some(Held::new(name, &digest(holds)?)))
}

/// The device of the slot that does not run.
pub fn other_device(node: &Node) -> Outcome<PathBuf> {
    Ok(updatable(node)?.other_partition()?.device())
}

/// The device of the system partition of the disk that was booted.
pub fn system_device(node: &Node) -> Outcome<PathBuf> {
    let partitions = &updatable(node)?.disk.partitions;
    let system = partitions.iter().find(|partition| partition.label == ESP);
    system
        .map(Partition::device)
        .ok_or_else(|| Failure::new(format!("the disk has no partition {ESP}")))
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
fn updatable(node: &Node) -> Outcome<&Running> {
    errand::may_begin(node)?;
    let running = running(node)?;
    match running.is_on_trial()? {
        true => Err(Failure::new(format!("{} is on trial", running.booted.slot))),
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
        let (other, holds) =
            (other(self.booted.slot), |holds: &Holds| matches!(holds, Ok(Some(_))));
        Ok(self
            .slots()?
            .iter()
            .any(|(slot, found)| slot.name == other && slot.state.is_bootable() && holds(found)))
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
    fn slots(&self) -> Outcome<Vec<(Slot, Holds)>> {
        let look = |slot: Slot| {
            let header = self.header(&slot).map_err(|_| "its header cannot be read".to_owned());
            (slot, header.and_then(|bytes| holds_of(&bytes)))
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
fn holds_of(header: &[u8]) -> Holds {
    match Header::parse(header) {
        Ok(header) => Ok(Some(header)),
        Err(HeaderError::Empty) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The same in words.
fn contents(holds: &Holds) -> String {
    match holds {
        Ok(Some(header)) => format!("version {}, sha256 {}", header.version, short(header)),
        Ok(None) => "empty".to_owned(),
        Err(why) => format!("damaged ({why})"),
    }
}

/// How the SHA-256 begins of what a slot holds, if that can be told.
fn digest(holds: &Holds) -> Option<String> {
    holds.as_ref().ok()?.as_ref().map(short)
}

fn short(header: &Header) -> String {
    header.sha256[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The state of a slot, in words.
fn state(slot: &Slot) -> String {
    match slot.state {
        state if state.priority == 0 => "not to be booted".to_owned(),
        state if state.successful => "good".to_owned(),
        state => format!("on trial, tries left: {}", state.tries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_slots::State;

    #[test]
    fn a_slot_is_told_by_version_and_digest() {
        let header = Header { length: 1, sha256: [0xAB; 32], version: "1.35.8".to_owned() };
        let mut bytes = header.encode().unwrap();
        let said = |bytes: &[u8]| contents(&holds_of(bytes));
        assert_eq!(said(&bytes), "version 1.35.8, sha256 abababababab");
        bytes[20] ^= 1;
        assert_eq!(said(&bytes), "damaged (the checksum of its header is wrong)");
        assert_eq!(said(&[0; 4096]), "empty");
    }

    #[test]
    fn a_slot_is_good_on_trial_or_not_to_be_booted() {
        let said = |priority, tries, successful| {
            let state = State { priority, tries, successful };
            super::state(&Slot {
                name: "SLOT-A",
                guid: uuid::Uuid::nil(),
                number: 2,
                first: 1,
                sectors: 1,
                state,
            })
        };
        assert_eq!(said(1, 14, false), "on trial, tries left: 14");
        assert_eq!(said(2, 0, true), "good");
        assert_eq!(said(0, 0, true), "not to be booted");
    }
}
