//! Everything that slotboot does, on any machine: repair the partition table, choose the best slot,
//! spend a try, load the UKI, start it.

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

use crate::{Booted, Header, Mark, Slot, mark, slots};

/// The machine that boots, with the one disk that the program was loaded from.
pub trait Machine: Source {
    /// Memory for a UKI.
    type Memory: AsRef<[u8]> + AsMut<[u8]>;
    /// A UKI that the firmware has loaded.
    type Image;

    /// Allocates memory of this size, with any contents; `None` if the machine does not have
    /// enough.
    fn memory(&mut self, size: usize) -> Option<Self::Memory>;

    /// The sector size and size of the disk.
    fn geometry(&self) -> Geometry;

    /// Writes to the disk, and returns when the data are on the medium.
    fn write(&mut self, write: &Write) -> Result<(), Self::Error>;

    /// Whether the firmware refuses unsigned images, so that a slot's bytes need no other check.
    fn verifies(&self) -> bool;

    /// Computes the SHA-256 of these bytes.
    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32];

    /// Prints a line on the console.
    fn say(&mut self, line: &str);

    /// Makes the firmware load a UKI, and verify it if Secure Boot is on. Returns the reason of a
    /// refusal.
    fn load(&mut self, slot: &Slot, uki: &[u8]) -> Result<Self::Image, String>;

    /// Unloads a UKI that will not be started.
    fn unload(&mut self, image: Self::Image);

    /// The minimum security epoch that still starts; 0 if none is stored, or none that can be read.
    fn floor(&mut self) -> u32;

    /// Sets the minimum security epoch.
    fn raise_floor(&mut self, epoch: u32) -> Result<(), String>;

    /// Starts what was loaded, and tells it `booted`. Comes back only when that did not work, with
    /// the reason.
    fn start(
        &mut self,
        slot: &Slot,
        header: &Header,
        image: Self::Image,
        booted: &Booted,
    ) -> String;
}

/// The start of the reason for passing over a slot whose try could not be spent: it keeps its
/// tries, and the next boot is the same.
pub const NOT_COUNTED: &str = "its try cannot be counted";

/// Why nothing started.
#[derive(Debug)]
pub enum Stop {
    /// Neither copy of the partition table can be read.
    NoTable(gpt::Error),
    /// No slot could be started; a sentence for each one.
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
    let mut passed = Vec::new();
    for slot in slots(label.table()) {
        let booted =
            Booted { disk: label.table().disk_guid, slot: slot.name, why: why(&slot, &passed) };
        let why = attempt(machine, &slot, &booted);
        let line = format!("{}: {why}", slot.name);
        machine.say(&line);
        passed.push(line);
    }
    Stop::NoSlot(passed)
}

/// Makes both copies of the table valid. A disk that cannot be repaired may still boot.
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

/// Tries to start a slot. Returns the reason of a failure.
fn attempt(machine: &mut impl Machine, slot: &Slot, booted: &Booted) -> String {
    let (header, memory) = match spend(machine, slot).and_then(|()| read_uki(machine, slot)) {
        Ok(read) => read,
        Err(why) => return why,
    };
    let uki = &memory.as_ref()[..header.length as usize];
    let image = match machine.load(slot, uki) {
        Ok(image) => image,
        Err(why) => return why,
    };
    if let Err(why) = admit(machine, slot, uki) {
        machine.unload(image);
        return why;
    }
    machine.start(slot, &header, image, booted)
}

/// Refuses a UKI whose security epoch is below this machine's minimum, and raises the minimum to
/// that of a slot that is good already. If the firmware verifies nothing, anybody can write any
/// epoch, so neither applies.
fn admit(machine: &mut impl Machine, slot: &Slot, uki: &[u8]) -> Result<(), String> {
    if !machine.verifies() {
        return Ok(());
    }
    let image = Image::parse(uki).map_err(|error| error.to_string())?;
    let epoch = epoch::of(&image).map_err(|error| error.to_string())?;
    let floor = machine.floor();
    if epoch < floor {
        return Err(format!(
            "its security epoch is {epoch}, and this machine starts none below {floor}"
        ));
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

/// Spends a try before the attempt, so that a failure of any kind costs it.
fn spend<M: Machine>(machine: &mut M, slot: &Slot) -> Result<(), String> {
    match slot.state {
        state if state.priority == 0 => return Err("it is not to be booted".to_string()),
        state if !state.is_bootable() => return Err("it has no tries left".to_string()),
        _ => {}
    }
    // A slot whose tries cannot be counted could fail forever.
    count(machine, slot).map_err(|why| format!("{NOT_COUNTED}: {why}"))
}

/// Writes the slot's state after one more try.
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
    // A worn disk may report success and keep the old data.
    match Label::read(machine, geometry) {
        Ok(label) if *label.table() == table => Ok(()),
        _ => Err("the disk does not keep what is written to it".to_string()),
    }
}

/// Reads the header and the UKI, and makes the checks that the firmware does not make.
fn read_uki<M: Machine>(machine: &mut M, slot: &Slot) -> Result<(Header, M::Memory), String> {
    let sector_size = machine.geometry().sector_size();
    let start = slot.first * sector_size;
    let mut bytes = vec![0; HEADER_SIZE as usize];
    read(machine, start, &mut bytes)?;
    let header = Header::parse(&bytes).map_err(|error| error.to_string())?;
    let room = (slot.sectors * sector_size).saturating_sub(HEADER_SIZE);
    if header.length == 0 || header.length > room {
        return Err(format!(
            "its header speaks of {} bytes, and there is room for {room}",
            header.length
        ));
    }
    let size = header.length.next_multiple_of(sector_size) as usize;
    let mut memory =
        machine.memory(size).ok_or_else(|| format!("there is no memory for its {size} bytes"))?;
    read(machine, start + HEADER_SIZE, memory.as_mut())?;
    if !machine.verifies()
        && machine.sha256(&memory.as_ref()[..header.length as usize]) != header.sha256
    {
        return Err("its bytes are not those that its header speaks of".to_string());
    }
    Ok((header, memory))
}

/// Why this slot is started, for whoever reads the console or asks the node. `passed` are the slots
/// that would have been better.
fn why(slot: &Slot, passed: &[String]) -> String {
    let state = match slot.state {
        state if state.successful => "good".to_string(),
        state => format!("on trial, tries left: {}", state.tries.saturating_sub(1)),
    };
    if passed.is_empty() { state } else { format!("{state}; passed over {}", passed.join("; ")) }
}

fn write_all<M: Machine>(machine: &mut M, writes: &[Write]) -> Result<(), String> {
    writes.iter().try_for_each(|write| machine.write(write)).map_err(text)
}

fn read<M: Machine>(machine: &mut M, offset: u64, bytes: &mut [u8]) -> Result<(), String> {
    machine.read_at(offset, bytes).map_err(text)
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
