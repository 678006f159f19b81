//! All that slotboot does, on any machine: repair the partition table, take the best slot, spend a
//! try, load it, start it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use osbuild_abi::slot::HEADER_SIZE;
use osbuild_formats::epoch;
use osbuild_formats::gpt::{self, Geometry, Health, Label, Source, Write};
use osbuild_formats::pe::Image;
use osbuild_protocol::{BootReport, PassReason, PassedOver, StartReason};
use uuid::Uuid;

use crate::{Header, Mark, Slot, mark, slots};

/// The machine that is booted, and of it the one disk that the program was loaded from.
pub trait Machine: Source {
    /// Memory that a UKI is read into.
    type Memory: AsRef<[u8]> + AsMut<[u8]>;
    /// A UKI that the firmware has loaded.
    type Image;

    /// So many bytes of memory, whatever is in them; none if the machine has not got that much.
    fn memory(&mut self, size: usize) -> Option<Self::Memory>;

    /// Sector size and size of the disk.
    fn geometry(&self) -> Geometry;

    /// Writes to the disk, and comes back when that is on the medium.
    fn write(&mut self, write: &Write) -> Result<(), Self::Error>;

    /// Whether the firmware refuses what is not signed, so that a slot's bytes need no other check.
    fn verifies(&self) -> bool;

    /// The SHA-256 of these bytes.
    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32];

    /// Shows a line to whoever watches.
    fn say(&mut self, line: &str);

    /// Has the firmware load a UKI, and verify it where it does that. The reason if it refuses.
    fn load(&mut self, slot: &Slot, uki: &[u8]) -> Result<Self::Image, String>;

    /// Gives up a UKI that was loaded and is not to be started.
    fn unload(&mut self, image: Self::Image);

    /// The least security epoch that is still started; 0 if nothing, or nothing that can be read,
    /// says so.
    fn floor(&mut self) -> u32;

    /// Makes this the least security epoch.
    fn raise_floor(&mut self, epoch: u32) -> Result<(), String>;

    /// Starts what was loaded, and leaves it the report. Returns only when that did not work, with
    /// the reason.
    fn start(
        &mut self,
        slot: &Slot,
        header: &Header,
        image: Self::Image,
        report: &BootReport,
    ) -> String;
}

type Tried<T> = Result<T, PassedOver>;

/// Why nothing was started.
#[derive(Debug)]
pub enum Stop {
    /// Neither copy of the partition table can be read.
    NoTable(gpt::Error),
    /// No slot could be started: for each a sentence that says why.
    NoSlot(Vec<String>),
}

/// Boots the machine. Comes back only when nothing on the disk can be started.
pub fn boot<M: Machine>(machine: &mut M) -> Stop {
    let geometry = machine.geometry();
    let label = match Label::read(machine, geometry) {
        Ok(label) => label,
        Err(error) => return Stop::NoTable(error),
    };
    repair(machine, &label);
    let mut passed: Vec<(&str, PassedOver)> = Vec::new();
    for slot in slots(label.table()) {
        let report = report(label.table().disk_guid, &slot, passed.last());
        let over = attempt(machine, &slot, &report);
        machine.say(&format!("{}: {}", slot.name, over.text));
        passed.push((slot.name, over));
    }
    Stop::NoSlot(passed.iter().map(|(name, over)| format!("{name}: {}", over.text)).collect())
}

/// Makes both copies of the table good. A disk that cannot be repaired may still boot.
fn repair(machine: &mut impl Machine, label: &Label) {
    let found = match label.health() {
        Health::Sound => return,
        Health::Differ => "its copies differed",
        Health::PrimaryBroken => "its primary copy was damaged",
        Health::BackupBroken => "its backup was damaged or not at the end of the disk",
    };
    let writes = label.change_to(label.table()).map_err(|error| error.to_string());
    let line = match writes.and_then(|writes| write_all(machine, &writes)) {
        Ok(()) => format!("the partition table is repaired: {found}"),
        Err(why) => format!("the partition table cannot be repaired: {found}: {why}"),
    };
    machine.say(&line);
}

/// Tries to start a slot. Returns only when that did not work, with the reason.
fn attempt(machine: &mut impl Machine, slot: &Slot, report: &BootReport) -> PassedOver {
    let (header, memory) = match spend(machine, slot).and_then(|()| read_uki(machine, slot)) {
        Ok(read) => read,
        Err(over) => return over,
    };
    let uki = &memory.as_ref()[..header.length as usize];
    let image = match machine.load(slot, uki) {
        Ok(image) => image,
        Err(why) => return over(PassReason::Refused, why),
    };
    if let Err(over) = admit(machine, slot, uki) {
        machine.unload(image);
        return over;
    }
    over(PassReason::Returned, machine.start(slot, &header, image, report))
}

/// Refuses a UKI of an older security epoch than this machine still starts, and raises that one to
/// the UKI's where the slot has been a good node already. Where the firmware verifies nothing the
/// number is anybody's, and neither counts.
fn admit(machine: &mut impl Machine, slot: &Slot, uki: &[u8]) -> Tried<()> {
    if !machine.verifies() {
        return Ok(());
    }
    let image = Image::parse(uki).map_err(|error| over(PassReason::EpochUnreadable, error))?;
    let epoch = epoch::of(&image).map_err(|error| over(PassReason::EpochUnreadable, error))?;
    let floor = machine.floor();
    if epoch < floor {
        let why =
            format!("its security epoch is {epoch}, and this machine starts none below {floor}");
        return Err(over(PassReason::EpochTooOld, why));
    }
    if slot.state.successful && epoch > floor {
        let line = match machine.raise_floor(epoch) {
            Ok(()) => format!("security epochs below {epoch} are not started any more"),
            Err(why) => {
                format!("security epochs below {epoch} cannot be refused from now on: {why}")
            }
        };
        machine.say(&line);
    }
    Ok(())
}

/// Spends a try, so that it is spent whatever comes of it.
fn spend<M: Machine>(machine: &mut M, slot: &Slot) -> Tried<()> {
    match slot.state {
        state if state.priority == 0 => {
            return Err(over(PassReason::NotBootable, "it is not to be booted"));
        }
        state if !state.is_bootable() => {
            return Err(over(PassReason::NoTries, "it has no tries left"));
        }
        _ => {}
    }
    // A slot whose tries cannot be counted could fail for ever. Updaters of version 0 of the
    // protocol read this reason from its wording.
    count(machine, slot)
        .map_err(|why| over(PassReason::NotCounted, format!("its try cannot be counted: {why}")))
}

/// Writes what the partition table says of a slot that is tried once more.
fn count<M: Machine>(machine: &mut M, slot: &Slot) -> Result<(), String> {
    let geometry = machine.geometry();
    let label = Label::read(machine, geometry).map_err(|error| error.to_string())?;
    let table = mark(label.table(), slot.name, Mark::Started)
        .ok_or("it is gone from the partition table")?;
    if table == *label.table() {
        return Ok(());
    }
    let writes = label.change_to(&table).map_err(|error| error.to_string())?;
    write_all(machine, &writes)?;
    // A worn disk may say that it has written and keep what it had.
    match Label::read(machine, geometry) {
        Ok(label) if *label.table() == table => Ok(()),
        _ => Err("the disk does not keep what is written to it".to_string()),
    }
}

/// Reads header and UKI, and checks them as far as the firmware does not.
fn read_uki<M: Machine>(machine: &mut M, slot: &Slot) -> Tried<(Header, M::Memory)> {
    let sector_size = machine.geometry().sector_size();
    let start = slot.first * sector_size;
    let mut bytes = vec![0; HEADER_SIZE as usize];
    read(machine, start, &mut bytes)?;
    let header = Header::parse(&bytes).map_err(|error| over(PassReason::Header, error))?;
    let room = (slot.sectors * sector_size).saturating_sub(HEADER_SIZE);
    if header.length == 0 || header.length > room {
        let length = header.length;
        let why = format!("its header speaks of {length} bytes, and there is room for {room}");
        return Err(over(PassReason::Length, why));
    }
    let size = header.length.next_multiple_of(sector_size) as usize;
    let mut memory = machine.memory(size).ok_or_else(|| {
        over(PassReason::Memory, format!("there is no memory for its {size} bytes"))
    })?;
    read(machine, start + HEADER_SIZE, memory.as_mut())?;
    if !machine.verifies()
        && machine.sha256(&memory.as_ref()[..header.length as usize]) != header.sha256
    {
        let why = "its bytes are not those that its header speaks of";
        return Err(over(PassReason::Digest, why));
    }
    Ok((header, memory))
}

/// Why this slot is started, for `init` and for people. `passed` is the slot that comes before it.
fn report(disk: Uuid, slot: &Slot, passed: Option<&(&str, PassedOver)>) -> BootReport {
    let (started, state) = match slot.state {
        state if state.successful => (StartReason::Good, "good".to_string()),
        state => {
            let tries_left = state.tries.saturating_sub(1);
            (StartReason::OnTrial { tries_left }, format!("on trial, tries left: {tries_left}"))
        }
    };
    let text = match passed {
        Some((name, over)) => format!("{state}; passed over {name}: {}", over.text),
        None => state,
    };
    BootReport { disk, slot: slot.name, started, passed: passed.map(|(_, over)| over.reason), text }
}

fn over(reason: PassReason, why: impl ToString) -> PassedOver {
    PassedOver { reason, text: why.to_string() }
}

fn write_all<M: Machine>(machine: &mut M, writes: &[Write]) -> Result<(), String> {
    writes.iter().try_for_each(|write| machine.write(write)).map_err(text)
}

fn read<M: Machine>(machine: &mut M, offset: u64, bytes: &mut [u8]) -> Tried<()> {
    machine.read_at(offset, bytes).map_err(|error| over(PassReason::Unreadable, text(error)))
}

fn text(error: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> String {
    error.into().to_string()
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTable(error) => write!(f, "the disk has no partition table: {error}"),
            Self::NoSlot(passed) if passed.is_empty() => f.write_str("the disk has no slots"),
            Self::NoSlot(passed) => write!(f, "no slot can be booted: {}", passed.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests;
