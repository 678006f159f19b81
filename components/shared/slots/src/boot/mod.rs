//! Everything that slotboot does, on any machine: repair the partition table, choose a slot, spend
//! a try, load the UKI, start it.

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

/// The machine to boot, with the one disk that slotboot was loaded from.
pub trait Machine: Source {
    /// Memory to read a UKI into.
    type Memory: AsRef<[u8]> + AsMut<[u8]>;
    /// A UKI that the firmware has loaded.
    type Image;

    /// Allocates this many bytes of memory with any contents; `None` if the machine has too little.
    fn memory(&mut self, size: usize) -> Option<Self::Memory>;

    /// The sector size and size of the disk.
    fn geometry(&self) -> Geometry;

    /// Writes to the disk, and flushes.
    fn write(&mut self, write: &Write) -> Result<(), Self::Error>;

    /// Whether the firmware verifies signatures, so that slotboot need not check a slot's digest.
    fn verifies(&self) -> bool;

    /// The SHA-256 of these bytes.
    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32];

    /// Prints a line to the console.
    fn print(&mut self, line: &str);

    /// Has the firmware load a UKI, and verify it if it verifies. Returns the reason if it refuses.
    fn load(&mut self, slot: &Slot, uki: &[u8]) -> Result<Self::Image, String>;

    /// Unloads a UKI that will not be started.
    fn unload(&mut self, image: Self::Image);

    /// The minimum security epoch that this machine starts; 0 if there is none, or if it cannot be
    /// read.
    fn floor(&mut self) -> u32;

    /// Sets the minimum security epoch.
    fn raise_floor(&mut self, epoch: u32) -> Result<(), String>;

    /// Starts the loaded UKI, and leaves it the report. Returns only on failure, with the reason.
    fn start(
        &mut self,
        slot: &Slot,
        header: &Header,
        image: Self::Image,
        report: &BootReport,
    ) -> String;
}

type Attempt<T> = Result<T, PassedOver>;

/// Why nothing was started.
#[derive(Debug)]
pub enum Stop {
    /// Neither copy of the partition table can be read.
    NoTable(gpt::Error),
    /// No slot could be started: for each slot the reason.
    NoSlot(Vec<String>),
}

/// Boots the machine. Returns only if nothing on the disk can be started.
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
        let reason = attempt(machine, &slot, &report);
        machine.print(&format!("{}: {}", slot.name, reason.text));
        passed.push((slot.name, reason));
    }
    Stop::NoSlot(passed.iter().map(|(name, reason)| format!("{name}: {}", reason.text)).collect())
}

/// Repairs both copies of the partition table. A disk that cannot be repaired may still boot.
fn repair(machine: &mut impl Machine, label: &Label) {
    let found = match label.health() {
        Health::Sound => return,
        Health::Differ => "its copies differed",
        Health::PrimaryBroken => "its primary copy was damaged",
        Health::BackupBroken => "its backup was damaged or not at the end of the disk",
    };
    let writes = label.change_to(label.table()).map_err(|error| error.to_string());
    let line = match writes.and_then(|writes| write_all(machine, &writes)) {
        Ok(()) => format!("repaired the partition table: {found}"),
        Err(why) => format!("cannot repair the partition table: {found}: {why}"),
    };
    machine.print(&line);
}

/// Tries to start a slot. Returns only on failure, with the reason.
fn attempt(machine: &mut impl Machine, slot: &Slot, report: &BootReport) -> PassedOver {
    let (header, memory) = match spend(machine, slot).and_then(|()| read_uki(machine, slot)) {
        Ok(read) => read,
        Err(reason) => return reason,
    };
    let uki = &memory.as_ref()[..header.length as usize];
    let image = match machine.load(slot, uki) {
        Ok(image) => image,
        Err(why) => return passed_over(PassReason::Refused, why),
    };
    if let Err(reason) = check_epoch(machine, slot, uki) {
        machine.unload(image);
        return reason;
    }
    passed_over(PassReason::Returned, machine.start(slot, &header, image, report))
}

/// Refuses a UKI whose security epoch is below this machine's minimum, and raises the minimum to
/// the UKI's epoch if the slot is successful. Without verification by the firmware anybody could
/// set the epoch, so it is ignored.
fn check_epoch(machine: &mut impl Machine, slot: &Slot, uki: &[u8]) -> Attempt<()> {
    if !machine.verifies() {
        return Ok(());
    }
    let image =
        Image::parse(uki).map_err(|error| passed_over(PassReason::EpochUnreadable, error))?;
    let epoch =
        epoch::of(&image).map_err(|error| passed_over(PassReason::EpochUnreadable, error))?;
    let floor = machine.floor();
    if epoch < floor {
        let why = format!("its security epoch is {epoch}, below this machine's minimum of {floor}");
        return Err(passed_over(PassReason::EpochTooOld, why));
    }
    if slot.state.successful && epoch > floor {
        let line = match machine.raise_floor(epoch) {
            Ok(()) => format!("security epochs below {epoch} are no longer started"),
            Err(why) => {
                format!("the minimum security epoch cannot rise to {epoch}: {why}")
            }
        };
        machine.print(&line);
    }
    Ok(())
}

/// Spends a try before anything of the slot is read.
fn spend<M: Machine>(machine: &mut M, slot: &Slot) -> Attempt<()> {
    match slot.state {
        state if state.priority == 0 => {
            return Err(passed_over(PassReason::NotBootable, "it is not to be booted"));
        }
        state if !state.is_bootable() => {
            return Err(passed_over(PassReason::NoTries, "it has no tries left"));
        }
        _ => {}
    }
    // A slot whose tries cannot be counted could fail forever. Updaters with version 0 of the
    // protocol parse this wording.
    count(machine, slot).map_err(|why| {
        passed_over(PassReason::NotCounted, format!("its try cannot be counted: {why}"))
    })
}

/// Counts a try in the partition table, if the slot is on trial.
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
    // A worn-out disk may report success without keeping the write.
    match Label::read(machine, geometry) {
        Ok(label) if *label.table() == table => Ok(()),
        _ => Err("the disk does not keep written data".to_string()),
    }
}

/// Reads header and UKI, and checks what the firmware does not verify.
fn read_uki<M: Machine>(machine: &mut M, slot: &Slot) -> Attempt<(Header, M::Memory)> {
    let sector_size = machine.geometry().sector_size();
    let start = slot.first * sector_size;
    let mut bytes = vec![0; HEADER_SIZE as usize];
    read(machine, start, &mut bytes)?;
    let header = Header::parse(&bytes).map_err(|error| passed_over(PassReason::Header, error))?;
    let room = (slot.sectors * sector_size).saturating_sub(HEADER_SIZE);
    if header.length == 0 || header.length > room {
        let length = header.length;
        let why = format!("its header declares {length} bytes, but there is room for {room}");
        return Err(passed_over(PassReason::Length, why));
    }
    let size = header.length.next_multiple_of(sector_size) as usize;
    let mut memory = machine.memory(size).ok_or_else(|| {
        passed_over(PassReason::Memory, format!("there is no memory for its {size} bytes"))
    })?;
    read(machine, start + HEADER_SIZE, memory.as_mut())?;
    if !machine.verifies()
        && machine.sha256(&memory.as_ref()[..header.length as usize]) != header.sha256
    {
        let why = "its SHA-256 is not the one in its header";
        return Err(passed_over(PassReason::Digest, why));
    }
    Ok((header, memory))
}

/// The report on why this slot is started. `passed` is the slot before it in the boot order.
fn report(disk: Uuid, slot: &Slot, passed: Option<&(&str, PassedOver)>) -> BootReport {
    let (started, state) = match slot.state {
        state if state.successful => (StartReason::Good, "good".to_string()),
        state => {
            let tries_left = state.tries.saturating_sub(1);
            (StartReason::OnTrial { tries_left }, format!("on trial, tries left: {tries_left}"))
        }
    };
    let text = match passed {
        Some((name, reason)) => format!("{state}; passed over {name}: {}", reason.text),
        None => state,
    };
    BootReport {
        disk,
        slot: slot.name,
        started,
        passed: passed.map(|(_, passed)| passed.reason),
        text,
    }
}

fn passed_over(reason: PassReason, why: impl ToString) -> PassedOver {
    PassedOver { reason, text: why.to_string() }
}

fn write_all<M: Machine>(machine: &mut M, writes: &[Write]) -> Result<(), String> {
    writes.iter().try_for_each(|write| machine.write(write)).map_err(text)
}

fn read<M: Machine>(machine: &mut M, offset: u64, bytes: &mut [u8]) -> Attempt<()> {
    machine.read_at(offset, bytes).map_err(|error| passed_over(PassReason::Unreadable, text(error)))
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
