//! A node that finds a release on a web server and installs it by itself, with Secure Boot enforced. `cgpt`, `sgdisk`, mtools and `fsck.fat` look at
//! the disk that it leaves.

mod lab;
mod server;

use super::slots::disk::{A, B, Disk};
use super::slots::hears;
use crate::check::Verdict;
use crate::site::Site;
use lab::{Lab, NAME};
use osbuild::error::{Context, Error, Result};
use osbuild_abi::console::{SLOT, SLOT_GOOD, SLOTBOOT_STARTS};
use osbuild_abi::disk::ALIGNMENT;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::{Header, State};
use server::Server;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// What runs first, and what it is updated to.
const OLD: &str = "1.0.0";
const NEW: &str = "1.0.1";

/// How long the firmware, the kernel and the node may take for what is waited for.
const PATIENCE: Duration = Duration::from_secs(600);

/// What `init` says when the updater has got the slot, and when the slot is whole.
const OPENED: &str = "SLOT-B is opened for an update";
const NEXT: &str = "SLOT-B is booted next";

/// The node writes the release into its other slot, replaces slotboot, reboots into it by itself, and becomes a good one.
pub fn a_node_updates_itself(site: &Site) -> Result<Verdict> {
    let lab = Lab::new(site)?;
    let server = Server::start(&lab.repository())?;
    lab.write_recipe(OLD, server.port())?;
    lab.build()?;
    lab.wear_another_boot_program()?;
    let disk = Disk::of(site, lab.out(), lab.keys()?, NAME)?;
    let mut node = disk.boot()?;
    hears(&mut node, SLOT_GOOD, &["SLOT-A"])?;
    lab.write_recipe(NEW, server.port())?;
    lab.release()?;
    node.hear(OPENED, PATIENCE)?;
    let opened = Instant::now();
    node.hear(NEXT, PATIENCE)?;
    let took = opened.elapsed().as_secs_f64();
    hears(&mut node, SLOTBOOT_STARTS, &["SLOT-B", NEW, "on trial, tries left: 2"])?;
    hears(&mut node, SLOT, &["SLOT-B", NEW])?;
    hears(&mut node, SLOT_GOOD, &["SLOT-B"])?;
    node.power_off()?;
    is_installed(site, &lab, &disk)?;
    let said = format!("installed in {took:.1} s, plain `dd` on this machine {:.1} s", lab.plain_copy()?);
    Ok(Verdict { passed: 5, said, ..Verdict::default() })
}

/// Others find on the disk what the release has, and both slots good, the new one first.
fn is_installed(site: &Site, lab: &Lab, disk: &Disk) -> Result<()> {
    disk.is_sound()?;
    disk.is(A, State { priority: 1, tries: 0, successful: true })?;
    disk.is(B, State { priority: 2, tries: 0, successful: true })?;
    let uki = lab.uki()?;
    let slot = disk.read(disk.start(B)?, HEADER_SIZE + uki.len() as u64)?;
    let header = Header::parse(&slot).or_build(|| "SLOT-B has no header".to_owned())?;
    if header.version != NEW || slot[HEADER_SIZE as usize..] != *uki {
        return Err(Error::build("SLOT-B does not hold the release"));
    }
    if lab.boot_program(&disk.path())? != lab.boot_program(&lab.image())? {
        return Err(Error::build("the system partition does not hold the release's slotboot"));
    }
    let system = tempfile::NamedTempFile::new().or_build(|| "cannot make a file".to_owned())?;
    let length = disk.start(A)? - ALIGNMENT;
    fs::write(system.path(), disk.read(ALIGNMENT, length)?).or_build(|| "cannot copy the system partition".to_owned())?;
    site.finish("update-fsck", Command::new("fsck.fat").arg("-n").arg(system.path())).map(drop)
}
