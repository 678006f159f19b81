//! Security epochs: the old signed programs that an attacker with the disk can still start.

use super::change::Change;
use super::disk::{A, B, SlotDisk};
use super::{GOOD, LAST_TRY, SECOND};
use crate::vm::echo_uki;
use crate::vm::secure::NOT_TRUSTED;
use osbuild::error::{Context, Error, Result};
use osbuild::produce::sign::{EfiProgram, Signed};
use osbuild::ship::keys::Role;
use osbuild_abi::console::SLOTBOOT_STARTS;
use osbuild_signatures::authenticode;
use osbuild_signatures::efi::Listed;
use osbuild_slots::State;
use std::fs;

/// The epoch of the newer slot. The image's is 1.
const NEWER: u32 = 2;

pub fn older(disk: &SlotDisk) -> Result<String> {
    raise(disk)?;
    disk.set(A, State { priority: 3, ..GOOD })?;
    let mut node = disk.start()?;
    let why = "passed over SLOT-A: its security epoch is 1, below this machine's minimum of 2";
    node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-B", why])?;
    node.power_off()?;
    Ok(String::new())
}

/// Starts a good slot of a newer epoch. While it is on trial the older slot still starts.
fn raise(disk: &SlotDisk) -> Result<()> {
    disk.fill(B, &Change { epoch: NEWER, ..Change::default() })?;
    for (a, b, line) in [
        (GOOD, LAST_TRY, "slotboot: starts SLOT-B 0.0.1: on trial"),
        (GOOD, SECOND, "slotboot: starts SLOT-A"),
        (SECOND, GOOD, "slotboot: security epochs below 2 are no longer started"),
    ] {
        disk.set(A, a)?;
        disk.set(B, b)?;
        let mut node = disk.start()?;
        node.wait_for(line)?;
        node.power_off()?;
    }
    Ok(())
}

pub fn old_in_slotboots_place(disk: &SlotDisk) -> Result<String> {
    raise(disk)?;
    let node = disk.out("node.efi");
    let node = fs::read(&node).or_build(|| format!("cannot read `{}`", node.display()))?;
    let old = Signed::by(&disk.keys().signer(Role::Db)?, EfiProgram(echo_uki::uki(&node)?))?
        .into_inner()
        .0;
    disk.replace_slotboot(&old)?;
    let mut node = disk.start()?;
    node.wait_for(echo_uki::END)?;
    node.power_off()?;
    let mut trust = disk.keys().trust()?;
    trust.dbx.push(Listed::Image(
        authenticode::digest(&old).or_build(|| "cannot digest the UKI".to_owned())?,
    ));
    match disk.machine()?.trusting(trust).start()?.ready() {
        Err(error) if error.problems[0].causes.iter().any(|cause| cause == NOT_TRUSTED) => {
            Ok(String::new())
        }
        Err(error) => Err(error),
        Ok(()) => Err(Error::build("a UKI whose hash is revoked became ready")),
    }
}
