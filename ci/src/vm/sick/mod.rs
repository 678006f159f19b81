//! Sick nodes: each fault is injected behind the node's back, found with a command of `osctl` or on
//! the console, mended with `osctl` or a node document, and found again after a reboot before that
//! where it outlasts one. The commands and their output are in the log `sick-commands`, from which
//! `builder/docs/sick-nodes.md` quotes.

mod address;
mod desk;
mod disk;
mod memory;
mod settings;

use self::desk::Desk;
use super::data::Data;
use super::kept_disk::KeptDisk;
use super::settings::Lab;
use super::settings::remote::is_known_by_its_fingerprint;
use super::time_server::TimeServer;
use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::Result;
use osbuild_abi::console::SLOT_GOOD;
use std::process::Command;
use std::time::Duration;

/// The document on DATA.
const DOCUMENT: &str = "osbuild/node.toml";
/// The line of a node that is ready.
const READY: &str = "init: READY";

/// Wrong gateway, DNS and time, a kubelet that does not start, no memory, no address, a slot that
/// fell back, a broken CNI configuration and a full disk.
pub fn each_is_found_and_mended_without_a_shell(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "sick")?;
    let time = TimeServer::ahead(Duration::ZERO)?;
    let mut desk = Desk::new(&lab)?;

    // A release whose kubelet fails on trial is at fault itself, so the slot has to be good.
    let mut running = lab.boot("first")?;
    running.wait_until_printed(SLOT_GOOD)?;
    running.power_off()?;
    write_document(&lab, settings::DOCUMENT)?;
    let mut running = lab.boot("settings")?;
    is_known_by_its_fingerprint(&lab.osctl, &mut running, &mut desk.outcome)?;
    settings::are_found(&mut desk, "at the first boot")?;
    desk.run(&["reboot"])?;
    running.wait_for(READY)?;
    settings::are_found(&mut desk, "after a reboot")?;
    settings::are_mended(&mut desk, &time)?;
    memory::is_found_and_freed(&lab, &mut desk)?;
    running.power_off()?;

    spoil_other_slot(site, &lab.disk)?;
    write_document(&lab, address::WITHOUT)?;
    for boot in ["no-address", "no-address-again"] {
        address::is_missed_on_the_console(&lab, boot, &mut desk)?;
    }
    write_document(&lab, address::RECOVERY)?;
    let mut running = lab.boot("recovered")?;
    desk.misses("no address", &["status"], &["no address", "no gateway"])?;
    let passed_over = ["the node fell back to SLOT-A", "passed over SLOT-B"];
    desk.finds("slot fell back", &["status"], &passed_over)?;

    disk::is_filled(&lab)?;
    disk::is_found(&mut desk, "at once")?;
    desk.run(&["reboot"])?;
    running.wait_for(READY)?;
    disk::is_found(&mut desk, "after a reboot")?;
    disk::is_emptied(&lab, &mut running, &mut desk)?;
    desk.end()
}

/// Writes a node document to DATA of the node, which is off.
fn write_document(lab: &Lab, text: &str) -> Result<()> {
    let data = Data::of(lab.site, lab.disk.path())?;
    data.write(&[DOCUMENT], text)?;
    data.put_into(lab.disk.path())
}

/// Has slotboot try the other slot first, which holds no release.
fn spoil_other_slot(site: &Site, disk: &KeptDisk) -> Result<()> {
    let mut cgpt = Command::new("cgpt");
    cgpt.args(["add", "-i", "3", "-P", "15", "-T", "5", "-S", "0"]).arg(disk.path());
    site.finish("sick-cgpt", &mut cgpt).map(drop)
}
