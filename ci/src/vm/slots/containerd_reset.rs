//! Both slots share containerd's state on DATA: the node deletes it only after several failed boots
//! in a row.

use super::change::{Change, Over};
use super::disk::{A, B, SlotDisk};
use super::{GOOD, LAST_TRY};
use crate::vm::data::{Data, on_data};
use osbuild::error::{Error, Result};
use osbuild_abi::console::{FAILED, READY, SLOTBOOT_STARTS};
use osbuild_abi::paths::{CONTAINERD_BLOBS, IMAGES};
use osbuild_abi::slot::UPDATE_TRIES;
use osbuild_slots::State;
use std::time::Duration;

/// How long two boots may take.
const TWO_BOOTS: Duration = Duration::from_secs(600);

/// containerd's database on DATA.
const DATABASE: &str = "containerd/io.containerd.metadata.v1.bolt/meta.db";

/// Files of users in the folders of containerd and of CNI plugins, which only the reset deletes.
const USERS: [&str; 2] = ["containerd/users", "cni/users"];

/// Where `init` counts failures on DATA.
const COUNT: &str = "containerd-failures";

/// Folders take the place of the blobs of the node's own images.
pub fn blobs(disk: &SlotDisk) -> Result<String> {
    is_deleted(disk, "old-images", |data| {
        let line = |blob| format!("rm {blob}\nmkdir {blob}\nmkdir {blob}/in-the-way\n");
        data.change(&data.files(&on_data(CONTAINERD_BLOBS))?.iter().map(line).collect::<String>())
    })
}

/// A disk that lost a flushed write leaves a database that containerd cannot open.
pub fn database(disk: &SlotDisk) -> Result<String> {
    is_deleted(disk, "images", |data| data.write(&[DATABASE], &"torn".repeat(1 << 14)))
}

/// A release without its images fails once per try, and the good slot finds containerd's state
/// unchanged.
pub fn on_trial(disk: &SlotDisk) -> Result<String> {
    let blobs = format!("{IMAGES}/blobs");
    disk.fill(
        B,
        &Change { over: &[(blobs.as_str(), Over::Link("nowhere"))], ..Change::default() },
    )?;
    boot_to_ready(disk)?;
    change_data(disk, |_| Ok(()))?;
    disk.set(B, State { tries: UPDATE_TRIES, ..LAST_TRY })?;
    let mut node = disk.start()?;
    for _ in 0..UPDATE_TRIES {
        node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-B"])?;
        node.wait_for(&format!("{FAILED} old-images"))?;
    }
    node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-A"])?;
    node.ready_within(TWO_BOOTS)?;
    node.power_off()?;
    match has(disk)? {
        [true, true] => Ok(String::new()),
        _ => Err(Error::build("a bad release has made the node delete containerd's state")),
    }
}

/// Changes DATA of a node that was ready. The only slot fails once more in the phase; at the next
/// boot it deletes containerd's state and becomes ready.
fn is_deleted(
    disk: &SlotDisk,
    phase: &str,
    change: impl FnOnce(&Data) -> Result<()>,
) -> Result<String> {
    boot_to_ready(disk)?;
    change_data(disk, |data| {
        data.write(&[COUNT], &UPDATE_TRIES.to_string())?;
        change(data)
    })?;
    let mut node = disk.start()?;
    node.wait_for(&format!("{FAILED} {phase}"))?;
    node.ready_within(TWO_BOOTS)?;
    node.power_off()?;
    match has(disk)? {
        [false, false] => Ok(String::new()),
        _ => Err(Error::build("containerd's state was not deleted")),
    }
}

/// Boots the only slot, a good one, until it is ready.
fn boot_to_ready(disk: &SlotDisk) -> Result<()> {
    disk.set(A, GOOD)?;
    disk.set(B, State::EMPTY)?;
    let mut node = disk.start()?;
    node.wait_for(READY)?;
    node.power_off()
}

/// Writes the users' files to DATA, and changes it further.
fn change_data(disk: &SlotDisk, change: impl FnOnce(&Data) -> Result<()>) -> Result<()> {
    let data = disk.data()?;
    data.write(&USERS, "kept")?;
    change(&data)?;
    data.put_into(&disk.path())
}

/// Whether each of the users' files exists.
fn has(disk: &SlotDisk) -> Result<[bool; 2]> {
    let data = disk.data()?;
    let [one, other] = USERS.map(|path| data.read(path));
    Ok([one?.is_some(), other?.is_some()])
}
