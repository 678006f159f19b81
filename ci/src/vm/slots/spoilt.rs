//! What is kept of containers on DATA is the same for both slots: where boot after boot fails by
//! it, the node begins without that, and not sooner.

use super::change::{Change, Over};
use super::disk::{A, B, Disk};
use super::{GOOD, LAST_TRY, PATIENCE, hears};
use crate::vm::data::{Data, on_data};
use osbuild::error::{Error, Result};
use osbuild_abi::console::{FAILED, READY, SLOTBOOT_STARTS};
use osbuild_abi::paths::{CONTAINERD_BLOBS, IMAGES};
use osbuild_abi::slot::UPDATE_TRIES;
use osbuild_slots::State;

/// containerd's database on DATA.
const DATABASE: &str = "containerd/io.containerd.metadata.v1.bolt/meta.db";

/// Files that stand for what users have in the folders of containerd and of CNI plugins: nothing
/// but the last resort removes them.
const USERS: [&str; 2] = ["containerd/users", "cni/users"];

/// Where `init` counts failures on DATA.
const COUNT: &str = "containerd-failures";

/// Folders are where the blobs of the node's own images should be.
pub fn blobs(disk: &Disk) -> Result<String> {
    is_given_up(disk, "old-images", |data| {
        let line = |blob| format!("rm {blob}\nmkdir {blob}\nmkdir {blob}/in-the-way\n");
        data.change(&data.files(&on_data(CONTAINERD_BLOBS))?.iter().map(line).collect::<String>())
    })
}

/// A disk that has lied about what it wrote has left a database that containerd does not open.
pub fn database(disk: &Disk) -> Result<String> {
    is_given_up(disk, "images", |data| data.write(&[DATABASE], &"torn".repeat(1 << 14)))
}

/// A release whose images are not there fails as often as it has tries, and the good slot finds all
/// that it had.
pub fn on_trial(disk: &Disk) -> Result<String> {
    let blobs = format!("{IMAGES}/blobs");
    disk.fill(
        B,
        &Change { over: &[(blobs.as_str(), Over::Link("nowhere"))], ..Change::default() },
    )?;
    was_ready(disk)?;
    spoil(disk, |_| Ok(()))?;
    disk.set(B, State { tries: UPDATE_TRIES, ..LAST_TRY })?;
    let mut node = disk.boot()?;
    for _ in 0..UPDATE_TRIES {
        hears(&mut node, SLOTBOOT_STARTS, &["SLOT-B"])?;
        node.hear(&format!("{FAILED} old-images"), PATIENCE)?;
    }
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-A"])?;
    node.ready(Some(2 * PATIENCE))?;
    node.power_off()?;
    match has(disk)? {
        [true, true] => Ok(String::new()),
        _ => Err(Error::build("a release has cost the node what it keeps of containers")),
    }
}

/// Spoils DATA of a disk that a node was ready on. Its only slot fails once more in the phase, and
/// is ready at the next boot without anything of before.
fn is_given_up(
    disk: &Disk,
    phase: &str,
    do_it: impl FnOnce(&Data) -> Result<()>,
) -> Result<String> {
    was_ready(disk)?;
    spoil(disk, |data| {
        data.write(&[COUNT], &UPDATE_TRIES.to_string())?;
        do_it(data)
    })?;
    let mut node = disk.boot()?;
    node.hear(&format!("{FAILED} {phase}"), PATIENCE)?;
    node.ready(Some(2 * PATIENCE))?;
    node.power_off()?;
    match has(disk)? {
        [false, false] => Ok(String::new()),
        _ => Err(Error::build("what is kept of containers was not given up")),
    }
}

/// Boots the only slot, a good one, until it is ready.
fn was_ready(disk: &Disk) -> Result<()> {
    disk.set(A, GOOD)?;
    disk.set(B, State::EMPTY)?;
    let mut node = disk.boot()?;
    node.hear(READY, PATIENCE)?;
    node.power_off()
}

/// Has users keep something, and does more to DATA.
fn spoil(disk: &Disk, do_it: impl FnOnce(&Data) -> Result<()>) -> Result<()> {
    let data = disk.data()?;
    data.write(&USERS, "kept")?;
    do_it(&data)?;
    data.put_into(&disk.path())
}

/// Whether what users have kept is there.
fn has(disk: &Disk) -> Result<[bool; 2]> {
    let data = disk.data()?;
    let [one, other] = USERS.map(|path| data.read(path));
    Ok([one?.is_some(), other?.is_some()])
}
