//! Security epochs: what an attacker who holds the disk can still start of what was signed once.

use super::change::Change;
use super::disk::{A, B, Disk};
use super::{GOOD, LAST_TRY, PATIENCE, SECOND, hears};
use crate::vm::secure::NOT_TRUSTED;
use crate::vm::teller;
use osbuild::error::{Context, Error, Result};
use osbuild::produce::sign::{EfiProgram, Signed};
use osbuild::ship::keys::Role;
use osbuild_abi::console::SLOTBOOT_STARTS;
use osbuild_signatures::authenticode;
use osbuild_signatures::efi::Listed;
use osbuild_slots::State;
use std::fs;

/// The epoch of the newer slot, where the image's is 1.
const NEWER: u32 = 2;

pub fn older(disk: &Disk) -> Result<String> {
    raise(disk)?;
    disk.set(A, State { priority: 3, ..GOOD })?;
    let mut node = disk.boot()?;
    let why = "passed over SLOT-A: its security epoch is 1, and this machine starts none below 2";
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-B", why])?;
    node.power_off()?;
    Ok(String::new())
}

/// Starts a good slot of a newer epoch: on trial it changes nothing yet, and then the older slot
/// starts as well as before.
fn raise(disk: &Disk) -> Result<()> {
    disk.fill(B, &Change { epoch: NEWER, ..Change::default() })?;
    for (a, b, line) in [
        (GOOD, LAST_TRY, "slotboot: starts SLOT-B 0.0.1: on trial"),
        (GOOD, SECOND, "slotboot: starts SLOT-A"),
        (SECOND, GOOD, "slotboot: security epochs below 2 are not started any more"),
    ] {
        disk.set(A, a)?;
        disk.set(B, b)?;
        let mut node = disk.boot()?;
        node.hear(line, PATIENCE)?;
        node.power_off()?;
    }
    Ok(())
}

pub fn old_in_slotboots_place(disk: &Disk) -> Result<String> {
    raise(disk)?;
    let node = disk.out("node.efi");
    let node = fs::read(&node).or_build(|| format!("cannot read `{}`", node.display()))?;
    let old =
        Signed::by(&disk.keys().signer(Role::Db)?, EfiProgram(teller::uki(&node)?))?.into_inner().0;
    disk.replace_slotboot(&old)?;
    let mut node = disk.boot()?;
    node.hear(teller::END, PATIENCE)?;
    node.power_off()?;
    let mut trust = disk.keys().trust()?;
    trust.dbx.push(Listed::Image(
        authenticode::digest(&old).or_build(|| "cannot digest the UKI".to_owned())?,
    ));
    match disk.boot_trusting(trust)?.ready(Some(PATIENCE)) {
        Err(error) if error.problems[0].causes.iter().any(|cause| cause == NOT_TRUSTED) => {
            Ok(String::new())
        }
        Err(error) => Err(error),
        Ok(()) => Err(Error::build("a UKI whose hash is revoked became a node")),
    }
}
