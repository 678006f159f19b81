//! slotboot on real firmware that enforces Secure Boot. The checks make the slots of one disk good
//! and bad in turn; `cgpt` and `sgdisk` check the disk.

pub mod change;
mod containerd_reset;
pub mod disk;
mod epochs;
pub mod faults;

use crate::check::{Outcome, unmet};
use crate::image::RECIPE;
use crate::site::Site;
use change::Change;
use disk::{A, B, SlotDisk};
use osbuild::error::{Error, Result};
use osbuild_abi::console::{
    SLOT, SLOT_GOOD, SLOTBOOT, SLOTBOOT_STARTS, SLOTBOOT_STOPPED, SLOTBOOT_TOOK,
};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::State;
use std::time::Duration;

/// How long a machine must stay silent after slotboot stopped: longer than the firmware of a
/// machine that was reset takes to print its first line.
const SILENCE: Duration = Duration::from_secs(20);

/// A good slot, and a good slot of lower priority.
pub const GOOD: State = State { priority: 2, tries: 0, successful: true };
const SECOND: State = State { priority: 1, ..GOOD };
/// A slot with one try left, and without one.
pub const LAST_TRY: State = State { priority: 3, tries: 1, successful: false };
const SPENT: State = State { tries: 0, ..LAST_TRY };

/// How long slotboot's own code may take, without the firmware's calls.
const MAX_SECONDS: f64 = 0.3;

/// Bytes of the copy of the partition table at the end of the disk.
const BACKUP: u64 = 33 * 512;

/// A claim's name, and its check, which returns a note for the summary. Each but the first prepares
/// the disk itself.
type Claim = (&'static str, fn(&SlotDisk) -> Result<String>);

/// The claims of `cargo ci`. The last one has to be the last: it changes the firmware's variables.
const CLAIMS: &[Claim] = &[
    ("a new node boots through slotboot, and its slot becomes good", becomes_good),
    ("a slot without tries is passed over, also with a damaged partition table", without_tries),
    ("a UKI with a flipped bit is passed over, also without a backup partition table", flipped_bit),
    ("a kernel panic falls back, and its reason is printed", |disk| note(faults::panic(disk))),
    ("without a bootable slot slotboot gives the reasons and stops", no_slot),
    ("after a good slot of a newer security epoch, an older one is passed over", epochs::older),
];

/// The further claims of `cargo ci full`.
const AT_LENGTH: &[Claim] = &[
    ("slotboot adds less than 0.3 s to the boot of a new node", is_quick),
    ("exchanged slots boot by their attribute bits, and print their versions", faults::exchanged),
    ("a truncated slot is passed over", faults::truncated),
    ("a slot header with a flipped bit is passed over", faults::flipped_header),
    ("a flipped bit in the UKI's own headers is passed over", faults::flipped_uki_header),
    ("with two damaged slots slotboot gives both reasons and stops", faults::both_damaged),
    ("a slot on trial refuses writes to the other slot and slotboot", faults::update_on_trial),
    ("a partition table damaged in either copy boots and is repaired", faults::damaged_tables),
    ("copies of the partition table that differ are made equal", differing_tables),
    ("a good slot whose containerd state stops the boot deletes it", containerd_reset::blobs),
    ("a good slot deletes a containerd database that cannot be opened", containerd_reset::database),
    ("a release without its images does not delete containerd's state", containerd_reset::on_trial),
    ("a slot that misses its deadline falls back", |disk| note(faults::deadline(disk))),
    ("a node that hangs falls back, by its watchdog", |disk| note(faults::hang(disk))),
    ("an `init` that crashes falls back", |disk| note(faults::init_crash(disk))),
    ("a kubelet that never becomes healthy falls back", |disk| note(faults::kubelet(disk))),
    ("a slot that does not know its name falls back", |disk| note(faults::unnamed(disk))),
    ("a slot on a disk that refused writes becomes good later", faults::marked_later),
    ("the only slot becomes good, also if it does not know its name", faults::unnamed_only_slot),
    ("a declared pod that never runs falls back", |disk| note(faults::pod(disk))),
    ("a release that loses the network falls back", |disk| note(faults::network(disk))),
    ("a slot that panics at each boot spends its tries and falls back", |disk| {
        note(faults::boot_loop(disk))
    }),
    (
        "an old UKI in slotboot's place starts in spite of its epoch until its hash is revoked",
        epochs::old_in_slotboots_place,
    ),
];

/// Checks the claims of `cargo ci`.
pub fn a_bad_slot_never_ends_the_node(site: &Site) -> Result<Outcome> {
    try_all(site, CLAIMS)
}

/// Checks the further claims of `cargo ci full`.
pub fn no_fault_of_a_slot_ends_the_node(site: &Site) -> Result<Outcome> {
    try_all(site, AT_LENGTH)
}

fn try_all(site: &Site, claims: &[Claim]) -> Result<Outcome> {
    let disk = new_disk(site, "slots")?;
    let mut outcome = Outcome::default();
    let mut notes = Vec::new();
    for (name, claim) in claims {
        match claim(&disk) {
            Ok(words) => {
                outcome.passed += 1;
                notes.extend(Some(words).filter(|words| !words.is_empty()));
            }
            Err(error) => {
                outcome.problems.push(unmet(name));
                outcome.problems.extend(error.problems);
            }
        }
    }
    outcome.summary = notes.join(", ");
    Ok(outcome)
}

/// A disk with the image of [`RECIPE`]. The consoles are written to logs that begin with `log`.
pub fn new_disk<'a>(site: &'a Site<'a>, log: &'static str) -> Result<SlotDisk<'a>> {
    SlotDisk::of_recipe(site, RECIPE, log)
}

fn note(fallback: Result<faults::Fallback>) -> Result<String> {
    Ok(fallback?.to_string())
}

/// Boots a new disk's SLOT-A until it is good.
pub fn becomes_good(disk: &SlotDisk) -> Result<String> {
    let mut node = disk.start()?;
    let took = node.wait_for(SLOTBOOT_TOOK)?;
    node.wait_for(SLOT_GOOD)?;
    node.power_off()?;
    disk.is(A, State { priority: 1, tries: 0, successful: true })?;
    Ok(took.trim_start_matches(SLOTBOOT).to_owned())
}

/// Like [`becomes_good`], while no other machine runs.
fn is_quick(disk: &SlotDisk) -> Result<String> {
    let took = becomes_good(disk)?;
    let seconds = took.split(' ').find_map(|word| word.parse::<f64>().ok());
    match seconds.is_some_and(|seconds| seconds < MAX_SECONDS) {
        true => Ok(took),
        false => Err(Error::build(format!("slotboot took {MAX_SECONDS} s or more")).cause(took)),
    }
}

fn without_tries(disk: &SlotDisk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    disk.set(A, SPENT)?;
    disk.set(B, SECOND)?;
    // The header and the first entries. Some firmware repairs them; otherwise slotboot does.
    disk.write(512, &[0; 1024])?;
    let mut node = disk.start()?;
    node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-B", "passed over SLOT-A: it has no tries left"])?;
    node.wait_for_line(SLOT, &["SLOT-B", "passed over SLOT-A: it has no tries left"])?;
    node.power_off()?;
    disk.is_sound()?;
    disk.is(A, SPENT)?;
    Ok(String::new())
}

fn flipped_bit(disk: &SlotDisk) -> Result<String> {
    disk.set(A, GOOD)?;
    disk.set(B, SECOND)?;
    let byte = disk.offset(A)? + HEADER_SIZE + (20 << 20);
    disk.flip(byte)?;
    disk.flip(disk.size()? - 512)?;
    let mut node = disk.start()?;
    node.wait_for_line(
        SLOTBOOT_STARTS,
        &["SLOT-B", "passed over SLOT-A: the firmware refuses it"],
    )?;
    node.power_off()?;
    disk.is_sound()?;
    disk.is(A, GOOD)?;
    disk.flip(byte)?;
    Ok(String::new())
}

fn differing_tables(disk: &SlotDisk) -> Result<String> {
    let end = disk.size()? - BACKUP;
    let before = disk.read(end, BACKUP)?;
    disk.set(A, GOOD)?;
    disk.set(B, State::EMPTY)?;
    disk.write(end, &before)?;
    let mut node = disk.start()?;
    node.wait_for_line(SLOTBOOT, &["repaired the partition table: its copies differed"])?;
    node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-A", "good"])?;
    node.power_off()?;
    disk.is_sound()?;
    disk.is(B, State::EMPTY)?;
    Ok(String::new())
}

fn no_slot(disk: &SlotDisk) -> Result<String> {
    disk.set(A, SPENT)?;
    disk.set(B, State::EMPTY)?;
    let mut node = disk.start()?;
    node.wait_for_line(
        SLOTBOOT_STOPPED,
        &["SLOT-A: it has no tries left", "SLOT-B: it is not to be booted"],
    )?;
    node.prints_nothing_after(SLOTBOOT_STOPPED, SILENCE)?;
    node.power_off().map(|()| String::new())
}
