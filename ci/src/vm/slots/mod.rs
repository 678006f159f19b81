//! slotboot on real firmware that enforces Secure Boot: one disk, whose slots are made good and bad
//! one after the other. `cgpt` and `sgdisk` look at the disk.

pub mod change;
pub mod disk;
mod epochs;
pub mod faults;
mod spoilt;

use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use change::Change;
use disk::{A, B, Disk};
use faults::Back;
use osbuild::error::{Error, Problem, Result};
use osbuild::ship::keys::{DEV, Keys};
use osbuild::ship::vm::node::Node;
use osbuild_abi::console::{
    SLOT, SLOT_GOOD, SLOTBOOT, SLOTBOOT_STARTS, SLOTBOOT_STOPPED, SLOTBOOT_TOOK,
};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::State;
use std::time::Duration;

/// How long the firmware, the kernel and the node may take for what is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long a machine that stopped is listened to.
const STILL: Duration = Duration::from_secs(5);

/// A slot that was a good node once, and one that was so but has a rival that comes first.
pub const GOOD: State = State { priority: 2, tries: 0, successful: true };
const SECOND: State = State { priority: 1, ..GOOD };
/// A slot with one try left, and without one.
const LAST_TRY: State = State { priority: 3, tries: 1, successful: false };
const SPENT: State = State { tries: 0, ..LAST_TRY };

/// How long slotboot may take of its own, without what the firmware does for it.
const MOST_SECONDS: f64 = 0.3;

/// Bytes of the copy of the partition table at the end of the disk.
const BACKUP: u64 = 33 * 512;

/// What is claimed, by name. Each but the first sets up what it needs, and gives what is worth
/// telling.
type Claim = (&'static str, fn(&Disk) -> Result<String>);

/// What `cargo ci` claims. The last one leaves the disk to nobody: the firmware's variables are not
/// those of a new machine any more.
const CLAIMS: &[Claim] = &[
    ("a new node boots through slotboot, and its slot becomes a good one", becomes_good),
    (
        "a slot without tries leads to the other one, even by a damaged partition table",
        without_tries,
    ),
    (
        "a flipped bit in a UKI leads to the other slot, even without the partition table's backup",
        flipped_bit,
    ),
    ("copies of the partition table that differ are made equal", differing_tables),
    ("a kernel that panics comes back to the other slot", |disk| told(faults::panic(disk))),
    ("a slot that is not good by its deadline comes back to the other one", |disk| {
        told(faults::deadline(disk))
    }),
    ("a node that hangs comes back to the other slot, by its watchdog", |disk| {
        told(faults::hang(disk))
    }),
    ("a good slot that fails by what is kept of containers begins without that", spoilt::blobs),
    ("without a slot slotboot says why and stands still", no_slot),
    (
        "once a good slot of a newer security epoch was started, an older one is passed over",
        epochs::older,
    ),
];

/// What `cargo ci full` claims besides.
const AT_LENGTH: &[Claim] = &[
    ("slotboot adds less than 0.3 s to the boot of a new node", is_quick),
    (
        "slots that are exchanged are booted by their bits, and say their versions",
        faults::exchanged,
    ),
    ("a truncated slot leads to the other one", faults::truncated),
    ("a flipped bit in a slot's header leads to the other slot", faults::flipped_header),
    ("a flipped bit in a UKI's own headers leads to the other slot", faults::flipped_uki_header),
    ("two damaged slots are told, and slotboot stands still", faults::both_damaged),
    ("a slot on trial lets nobody write the other one or slotboot", faults::asked_for_an_update),
    (
        "a partition table that is damaged anywhere in either copy boots and is repaired",
        faults::damaged_tables,
    ),
    (
        "a good slot whose containerd cannot read what it keeps begins without that",
        spoilt::database,
    ),
    (
        "a release whose images are not there costs nothing that is kept of containers",
        spoilt::on_trial,
    ),
    ("an init that crashes comes back to the other slot", |disk| told(faults::init_crash(disk))),
    ("a kubelet that never becomes healthy comes back to the other slot", |disk| {
        told(faults::kubelet(disk))
    }),
    ("a slot that does not know its name comes back to the other one", |disk| {
        told(faults::untold(disk))
    }),
    ("a slot on a disk that could not be written becomes a good one later", faults::marked_later),
    ("the only slot becomes a good one though it does not know its name", faults::untold_alone),
    ("a declared pod that never runs comes back to the other slot", |disk| told(faults::pod(disk))),
    ("a release that loses the network comes back to the other slot", |disk| {
        told(faults::network(disk))
    }),
    (
        "a slot that panics at each boot is tried as often as it has tries, and then the other one is back",
        |disk| told(faults::boot_loop(disk)),
    ),
    (
        "an old UKI in slotboot's place is started in spite of its epoch, until its hash is revoked",
        epochs::old_in_slotboots_place,
    ),
];

/// Tries every claim.
pub fn a_bad_slot_never_ends_the_node(site: &Site) -> Result<Verdict> {
    try_all(site, CLAIMS)
}

/// Tries those that take longer.
pub fn no_fault_of_a_slot_ends_the_node(site: &Site) -> Result<Verdict> {
    try_all(site, AT_LENGTH)
}

fn try_all(site: &Site, claims: &[Claim]) -> Result<Verdict> {
    let disk = new_disk(site, "slots")?;
    let mut verdict = Verdict::default();
    let mut said = Vec::new();
    for (name, claim) in claims {
        match claim(&disk) {
            Ok(words) => {
                verdict.passed += 1;
                said.extend(Some(words).filter(|words| !words.is_empty()));
            }
            Err(error) => {
                verdict.problems.push(Problem::new(format!("not so: {name}")));
                verdict.problems.extend(error.problems);
            }
        }
    }
    verdict.said = said.join(", ");
    Ok(verdict)
}

/// A disk with the image of [`RECIPE`]. The console goes to the log `log`.
pub fn new_disk<'a>(site: &'a Site<'a>, log: &'static str) -> Result<Disk<'a>> {
    let project = site.project();
    Disk::of(site, project.join("out").join(RECIPE), Keys::named(&project, DEV)?, log)
}

fn told(back: Result<Back>) -> Result<String> {
    Ok(back?.to_string())
}

/// Boots a new disk's SLOT-A until it is a good one.
pub fn becomes_good(disk: &Disk) -> Result<String> {
    let mut node = disk.boot()?;
    let took = node.hear(SLOTBOOT_TOOK, PATIENCE)?;
    node.hear(SLOT_GOOD, PATIENCE)?;
    node.power_off()?;
    disk.is(A, State { priority: 1, tries: 0, successful: true })?;
    Ok(took.trim_start_matches(SLOTBOOT).to_owned())
}

/// Boots it too, with nothing beside it that takes the processor.
fn is_quick(disk: &Disk) -> Result<String> {
    let took = becomes_good(disk)?;
    let seconds = took.split(' ').find_map(|word| word.parse::<f64>().ok());
    match seconds.is_some_and(|seconds| seconds < MOST_SECONDS) {
        true => Ok(took),
        false => Err(Error::build(format!("slotboot took {MOST_SECONDS} s or more")).cause(took)),
    }
}

fn without_tries(disk: &Disk) -> Result<String> {
    disk.fill(B, &Change::default())?;
    disk.set(A, SPENT)?;
    disk.set(B, SECOND)?;
    // The header, and the first entries behind it. Some firmwares repair that, and slotboot where
    // they do not.
    disk.write(512, &[0; 1024])?;
    let mut node = disk.boot()?;
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-B", "passed over SLOT-A: it has no tries left"])?;
    hears(&mut node, SLOT, &["SLOT-B", "passed over SLOT-A: it has no tries left"])?;
    node.power_off()?;
    disk.is_sound()?;
    disk.is(A, SPENT)?;
    Ok(String::new())
}

fn flipped_bit(disk: &Disk) -> Result<String> {
    disk.set(A, GOOD)?;
    disk.set(B, SECOND)?;
    let byte = disk.start(A)? + HEADER_SIZE + (20 << 20);
    disk.flip(byte)?;
    disk.flip(disk.size()? - 512)?;
    let mut node = disk.boot()?;
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-B", "passed over SLOT-A: the firmware refuses it"])?;
    node.power_off()?;
    disk.is_sound()?;
    disk.is(A, GOOD)?;
    disk.flip(byte)?;
    Ok(String::new())
}

fn differing_tables(disk: &Disk) -> Result<String> {
    let end = disk.size()? - BACKUP;
    let before = disk.read(end, BACKUP)?;
    disk.set(A, GOOD)?;
    disk.set(B, State::EMPTY)?;
    disk.write(end, &before)?;
    let mut node = disk.boot()?;
    hears(&mut node, SLOTBOOT, &["the partition table is repaired: its copies differed"])?;
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-A", "good"])?;
    node.power_off()?;
    disk.is_sound()?;
    disk.is(B, State::EMPTY)?;
    Ok(String::new())
}

fn no_slot(disk: &Disk) -> Result<String> {
    disk.set(A, SPENT)?;
    disk.set(B, State::EMPTY)?;
    let mut node = disk.boot()?;
    hears(
        &mut node,
        SLOTBOOT_STOPPED,
        &["SLOT-A: it has no tries left", "SLOT-B: it is not to be booted"],
    )?;
    match node.hear(SLOTBOOT, STILL) {
        Ok(line) => Err(Error::build("slotboot stopped and goes on").cause(line)),
        Err(_) => node.power_off().map(|()| String::new()),
    }
}

/// Waits for a line with this phrase, which has to have all of the words.
pub fn hears(node: &mut Node, phrase: &str, words: &[&str]) -> Result<()> {
    let line = node.hear(phrase, PATIENCE)?;
    match words.iter().find(|word| !line.contains(**word)) {
        Some(word) => Err(Error::build(format!("a line lacks `{word}`")).cause(line)),
        None => Ok(()),
    }
}
