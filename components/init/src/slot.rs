//! The slot that the node runs from: which one, why, what the other one is, and when it is a good one.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use osbuild_abi::console::{SLOT, SLOT_GOOD};
use osbuild_abi::paths::FIRMWARE_VARIABLES;
use osbuild_abi::slot::{HEADER_SIZE, VARIABLE, VENDOR};
use osbuild_slots::{Booted, Header, HeaderError, Mark, Slot, mark, other, slots};

use crate::disks::Disk;
use crate::failure::{Explain, Failure, Outcome};
use crate::node::Node;
use crate::variable::volatile;

/// The name of the phase.
pub const NAME: &str = "slot";

/// The slot that the node was started from.
pub struct Running {
    /// What slotboot said.
    pub booted: Booted,
    /// The disk that it is on.
    disk: Disk,
}

/// A slot and what it holds.
type Found = (Slot, Result<Header, HeaderError>);

/// What slotboot said, if it was what the firmware started.
pub fn booted() -> Option<Booted> {
    let variable = fs::read(Path::new(FIRMWARE_VARIABLES).join(format!("{VARIABLE}-{VENDOR}"))).ok()?;
    Booted::parse(volatile(&variable)?)
}

/// Finds the slot, and says which it is and what the other one is.
pub fn find(node: &mut Node) -> Outcome {
    let booted = booted().ok_or_else(|| Failure::new("nothing tells which slot was started"))?;
    let disk = node.disk.clone().filter(|disk| disk.guid == Some(booted.disk));
    let disk = disk.ok_or_else(|| Failure::new("DATA is not on the disk that was booted"))?;
    let running = Running { booted, disk };
    for (slot, holds) in running.slots()? {
        let (name, what) = (slot.name, contents(&holds));
        match name == running.booted.slot {
            true => node.console.line(&format!("{SLOT}{name}, {what}: {}", running.booted.why)),
            false => node.console.say(NAME, format_args!("the other one is {name}, {what}: {}", state(&slot))),
        }
    }
    node.slot = Some(running);
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
        let _ = writeln!(text, "slot-{which} {}, {}: {}", slot.name, contents(&holds), state(&slot));
    }
    Ok(text)
}

/// Marks the slot that runs as a good one, and says so.
pub fn mark_good(node: &mut Node) -> Outcome {
    let Some(running) = &node.slot else { return Ok(()) };
    let (label, _) = running.disk.label()?;
    let name = running.booted.slot;
    let table = mark(label.table(), name, Mark::Good).ok_or_else(|| Failure::new(format!("{name} is gone")))?;
    running.disk.write(&label.change_to(&table).explain("change the partition table")?)?;
    node.console.line(&format!("{SLOT_GOOD}{name}"));
    Ok(())
}

impl Running {
    /// Whether the slot still has to become a good one.
    pub fn is_on_trial(&self) -> Outcome<bool> {
        Ok(self.slots()?.iter().any(|(slot, _)| slot.name == self.booted.slot && !slot.state.successful))
    }

    /// Whether there is another slot to go back to.
    pub fn has_other(&self) -> Outcome<bool> {
        let other = other(self.booted.slot);
        Ok(self.slots()?.iter().any(|(slot, holds)| slot.name == other && slot.state.is_bootable() && holds.is_ok()))
    }

    /// Both slots as they are on the disk now.
    fn slots(&self) -> Outcome<Vec<Found>> {
        let (label, geometry) = self.disk.label()?;
        let file = File::open(self.disk.device()).explain(format_args!("open {}", self.disk.device().display()))?;
        let look = |slot: Slot| {
            let mut bytes = vec![0; HEADER_SIZE as usize];
            file.read_exact_at(&mut bytes, slot.first * geometry.sector_size()).explain(format_args!("read {}", slot.name))?;
            Ok((slot, Header::parse(&bytes)))
        };
        slots(label.table()).into_iter().map(look).collect()
    }
}

/// What a slot holds, in words.
fn contents(header: &Result<Header, HeaderError>) -> String {
    match header {
        Ok(header) => {
            let digest: String = header.sha256[..6].iter().map(|byte| format!("{byte:02x}")).collect();
            format!("version {}, sha256 {digest}", header.version)
        }
        Err(HeaderError::Empty) => "empty".to_owned(),
        Err(error) => format!("damaged ({error})"),
    }
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
        assert_eq!(contents(&Ok(header)), "version 1.35.8, sha256 abababababab");
        assert_eq!(contents(&Err(HeaderError::Empty)), "empty");
        assert_eq!(contents(&Err(HeaderError::Checksum)), "damaged (the checksum of its header is wrong)");
    }

    #[test]
    fn a_slot_is_good_on_trial_or_not_to_be_booted() {
        let said = |priority, tries, successful| {
            let state = State { priority, tries, successful };
            super::state(&Slot { name: "SLOT-A", guid: uuid::Uuid::nil(), number: 2, first: 1, sectors: 1, state })
        };
        assert_eq!(said(1, 14, false), "on trial, tries left: 14");
        assert_eq!(said(2, 0, true), "good");
        assert_eq!(said(0, 0, true), "not to be booted");
    }
}
