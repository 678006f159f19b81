//! The disk and the slot that the node was booted from.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use osbuild_abi::disk::ESP;
use osbuild_abi::paths::FIRMWARE_VARIABLES;
use osbuild_abi::slot::{HEADER_SIZE, VARIABLE, VENDOR};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{
    BootReport, Contents, Refusal, RefusalCode, SlotState, SlotStatus, Slots, SlotsStatus,
};
use osbuild_slots::{Mark, Slot, mark, other, slots};
use rustix::fs::OFlags;

use super::content::{Held, contents, state};
use crate::data::disks::{self, Disk, Partition};
use crate::variable::volatile;

/// Where the node was booted from, as far as it is known. Each part is found once, by a job of the
/// [disk worker](crate::disk_worker), which calls all functions here that read or write a disk.
#[derive(Default)]
pub struct BootSource {
    /// The disk with DATA.
    disk: OnceLock<Disk>,
    /// The slot that runs, if slotboot has named it.
    running: OnceLock<Running>,
}

/// The facts that decide the trial of the slot that runs.
pub struct TrialFacts {
    /// Whether the slot that runs still has to become a good one.
    pub on_trial: bool,
    /// Whether there is another slot to go back to.
    pub has_other: bool,
    /// The release in the slot that runs, if it holds one.
    pub own: Option<Held>,
    /// The release in the other slot, if it holds one.
    pub others: Option<Held>,
}

/// The slot that runs.
struct Running {
    booted: BootReport,
    disk: Disk,
}

/// A slot, its contents, and whether it runs.
pub struct Occupied {
    /// The slot as the partition table describes it.
    pub slot: Slot,
    /// The contents of the slot, as its header describes them.
    pub contents: Contents,
    /// Whether the node was booted from it.
    pub runs: bool,
}

/// The other slot, opened for an update.
pub struct OpenedSlot {
    /// Its name.
    pub name: &'static str,
    /// Its partition, for reading and writing.
    pub partition: OwnedFd,
    /// The bytes that it has room for.
    pub length: u64,
}

/// The report of slotboot about this boot, if the firmware started slotboot.
pub fn booted() -> Option<BootReport> {
    let variable =
        fs::read(Path::new(FIRMWARE_VARIABLES).join(format!("{VARIABLE}-{VENDOR}"))).ok()?;
    BootReport::decode(volatile(&variable)?)
}

impl BootSource {
    /// Takes note of the disk with DATA.
    pub fn set_disk(&self, disk: Disk) {
        // The phase that finds the disk runs once.
        let _ = self.disk.set(disk);
    }

    /// Finds the slot that runs.
    pub fn find(&self) -> Outcome {
        let booted = booted().ok_or_else(unknown)?;
        let disk = self.disk.get().filter(|disk| disk.guid == Some(booted.disk)).cloned();
        let disk = disk.ok_or_else(|| Failure::new("DATA is not on the disk that was booted"))?;
        let _ = self.running.set(Running { booted, disk });
        Ok(())
    }

    /// The name of the slot that runs, if it is known.
    pub fn slot(&self) -> Option<&'static str> {
        self.running.get().map(|running| running.booted.slot)
    }

    /// Why slotboot has started the slot that runs.
    pub fn reason(&self) -> Option<&str> {
        self.running.get().map(|running| running.booted.text.as_str())
    }

    /// Whether slotboot has passed over the slot that comes first in the boot order.
    pub fn has_passed_over(&self) -> bool {
        self.running.get().is_some_and(|running| running.booted.passed.is_some())
    }

    /// Both slots as they are on the disk now; none if the one that runs is unknown.
    pub fn slots(&self) -> Outcome<Vec<Occupied>> {
        self.running.get().map_or(Ok(Vec::new()), Running::slots)
    }

    /// The slots, as `status` reports them, without any outage: only [`super::reached`] knows of
    /// those.
    pub fn status(&self) -> Outcome<Slots> {
        let Some(running) = self.running.get() else { return Ok(Slots::Unknown) };
        let BootReport { slot: name, started, passed, text: why, .. } = running.booted.clone();
        let (mut own, mut other) = (None, None);
        for Occupied { slot, contents, runs } in running.slots()? {
            let status = SlotStatus { name: slot.name.to_owned(), state: state(&slot), contents };
            *(if runs { &mut own } else { &mut other }) = Some(status);
        }
        let running = own.ok_or_else(|| Failure::new(format!("the disk has no {name}")))?;
        Ok(Slots::Known(SlotsStatus { why, started, passed, running, other, is_outage: false }))
    }

    /// The facts that decide the trial of the slot that runs.
    pub fn trial(&self) -> Outcome<TrialFacts> {
        let on_trial = self.is_on_trial()?;
        let has_other = on_trial && self.has_other().unwrap_or(false);
        let slots = self.slots().unwrap_or_default();
        let held = |name: &str| {
            let found = slots.iter().find(|one| one.slot.name == name)?;
            Held::of(name, &found.contents)
        };
        let slot = self.slot();
        let (own, others) = (slot.and_then(held), slot.map(other).and_then(held));
        Ok(TrialFacts { on_trial, has_other, own, others })
    }

    /// Whether the slot that runs still has to become a good one. If it is unknown, any slot that
    /// has to may be the one.
    pub fn is_on_trial(&self) -> Outcome<bool> {
        match (self.running.get(), self.disk.get()) {
            (Some(running), _) => running.is_on_trial(),
            (None, Some(disk)) => Ok(states(disk)?
                .iter()
                .any(|slot| slot.state.priority > 0 && !slot.state.successful)),
            (None, None) => Ok(false),
        }
    }

    /// Whether there is another slot to go back to. If the slot that runs is unknown, that is one
    /// that was a good node.
    fn has_other(&self) -> Outcome<bool> {
        match (self.running.get(), self.disk.get()) {
            (Some(running), _) => running.has_other(),
            (None, Some(disk)) => Ok(states(disk)?
                .iter()
                .any(|slot| slot.state.priority > 0 && slot.state.successful)),
            (None, None) => Ok(false),
        }
    }

    /// Marks the slot that runs as a good one, and returns its name.
    pub fn mark_good(&self) -> Outcome<&'static str> {
        let (disk, name) = match (self.running.get(), self.disk.get()) {
            (Some(running), _) => (&running.disk, running.booted.slot),
            (None, Some(disk)) => (disk, only(disk)?),
            (None, None) => return Err(unknown()),
        };
        mark_on(disk, name, Mark::Good)?;
        Ok(name)
    }

    /// Takes the other slot out of use and opens its partition, which only one client at a time
    /// can have open.
    pub fn open_other(&self) -> Result<OpenedSlot, Refusal> {
        let running = self.updatable()?;
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
        // Without a header, nothing behind it is ever booted.
        file.write_all_at(&[0; HEADER_SIZE as usize], 0)
            .and_then(|()| file.sync_all())
            .explain(format_args!("erase {name}"))?;
        Ok(OpenedSlot { name, partition: file.into(), length })
    }

    /// The device of the slot that does not run.
    pub fn other_device(&self) -> Result<PathBuf, Refusal> {
        Ok(self.updatable()?.other_partition()?.device())
    }

    /// Like [`other_device`](Self::other_device), if that slot was good when it last ran.
    pub fn good_other_device(&self) -> Result<PathBuf, Refusal> {
        let running = self.updatable()?;
        let name = other(running.booted.slot);
        let slots = running.slots()?;
        let Some(found) = slots.iter().find(|one| one.slot.name == name) else {
            return Err(Failure::new(format!("the disk has no {name}")).into());
        };
        if matches!(state(&found.slot), SlotState::Good) {
            return self.other_device();
        }
        let (contents, state) = (found.contents.words(), state(&found.slot).words());
        let reason = format!("{name} is no slot to go back to: {contents}, {state}");
        Err(Refusal::new(RefusalCode::NotAllowed, reason))
    }

    /// The device of the system partition of the disk that was booted.
    pub fn system_device(&self) -> Result<PathBuf, Refusal> {
        let partitions = &self.updatable()?.disk.partitions;
        let system = partitions.iter().find(|partition| partition.label == ESP);
        system
            .map(Partition::device)
            .ok_or_else(|| Failure::new(format!("the disk has no partition {ESP}")).into())
    }

    /// Marks the other slot as the one to boot next, and returns its name.
    pub fn mark_for_try(&self) -> Outcome<&'static str> {
        let running = self.running.get().ok_or_else(unknown)?;
        let name = other(running.booted.slot);
        mark_on(&running.disk, name, Mark::ForTry)?;
        Ok(name)
    }

    /// The slot that runs, unless it is on trial itself: until it is a good one, the node falls
    /// back to the other slot.
    fn updatable(&self) -> Result<&Running, Refusal> {
        let running = self
            .running
            .get()
            .ok_or_else(|| Refusal::new(RefusalCode::SlotUnknown, unknown().to_string()))?;
        let reason = || format!("{} is on trial", running.booted.slot);
        match running.is_on_trial()? {
            true => Err(Refusal::new(RefusalCode::OnTrial, reason())),
            false => Ok(running),
        }
    }
}

fn unknown() -> Failure {
    Failure::new("the slot that was started is unknown")
}

/// The slots as the partition table of a disk has them.
fn states(disk: &Disk) -> Outcome<Vec<Slot>> {
    Ok(slots(disk.label()?.0.table()))
}

/// The only slot of a disk that can be booted, which is then the one that runs.
fn only(disk: &Disk) -> Outcome<&'static str> {
    let slots = states(disk)?.into_iter().filter(|slot| slot.state.priority > 0);
    let bootable: Vec<_> = slots.map(|slot| slot.name).collect();
    if let [only] = bootable[..] { Ok(only) } else { Err(unknown()) }
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
        let holds_release = |one: &Occupied| matches!(one.contents, Contents::Release(_));
        let is_other = |one: &Occupied| one.slot.name == other(self.booted.slot);
        let slots = self.slots()?;
        Ok(slots
            .iter()
            .any(|one| is_other(one) && one.slot.state.is_bootable() && holds_release(one)))
    }

    /// The partition of the other slot.
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
        partition.ok_or_else(|| Failure::new(format!("the kernel has no {}", slot.name)))
    }

    fn slots(&self) -> Outcome<Vec<Occupied>> {
        let occupied = |slot: Slot| {
            let header = self.header(&slot);
            let contents = header.map_or(Contents::Unreadable, |bytes| contents(&bytes));
            Occupied { contents, runs: slot.name == self.booted.slot, slot }
        };
        Ok(states(&self.disk)?.into_iter().map(occupied).collect())
    }

    /// The bytes of a slot's header, read through its partition: an update is written through
    /// that, and the page cache of the whole disk would not show it.
    fn header(&self, slot: &Slot) -> Outcome<Vec<u8>> {
        let device = self.partition(slot)?.device();
        let mut bytes = vec![0; HEADER_SIZE as usize];
        let read = File::open(&device).and_then(|file| file.read_exact_at(&mut bytes, 0));
        read.explain(format_args!("read {}", device.display())).map(|()| bytes)
    }
}
