//! A node without a network that installs a release from a folder, which an administrator's pod
//! fills.

use super::lab::{Lab, Releases};
use super::status::Statuses;
use super::{NEW, NEXT, OLD, TIMEOUT, installs, is_installed, waits_for_log};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::probe::{self, free_port};
use crate::vm::slots::disk::{A, B, SlotDisk};
use crate::vm::slots::faults::passes_over;
use osbuild::error::Result;
use osbuild::plan::Architecture;
use osbuild_abi::console::{READY, SLOT, SLOT_GOOD};
use osbuild_abi::paths::ADMIN_SOCKET;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_protocol::Request;
use osbuild_slots::State;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The message of the updater about the release that was rolled back.
const ROLLED_BACK: &str = "1.0.1 in SLOT-B was rolled back";

/// The message of the updater when an administrator requests a check.
const CHECKS: &str = "checks now, on request";

/// The names of the copies and of the consoles' logs.
const FOLDER: &str = "update-folder";
const FOLDER_ARM64: &str = "update-folder-arm64";

/// Without a server: the node writes the release to its other slot, reboots into it by itself, and
/// becomes good. On request it goes back to the release before, and stays there although the folder
/// has the newer one. The probe stands for the administrator's pod.
pub fn a_node_updates_itself_from_a_folder(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, FOLDER)?.with_osd();
    let (disk, took) = updates(site, lab, FOLDER, Architecture::Amd64)?;
    rolls_back(site, &disk)?;
    Ok(Outcome { passed: 10, summary: format!("installed in {took:.1} s"), ..Outcome::default() })
}

/// A node with arm64 does the same; when its new slot is damaged later, it falls back.
pub fn a_node_with_arm64_updates_itself_and_goes_back(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, FOLDER_ARM64)?;
    let (disk, took) = updates(site, lab, FOLDER_ARM64, Architecture::Arm64)?;
    disk.flip(disk.offset(B)? + HEADER_SIZE + (20 << 20))?;
    passes_over(&disk, "the firmware refuses it")?;
    Ok(Outcome { passed: 5, summary: format!("installed in {took:.1} s"), ..Outcome::default() })
}

/// Returns the disk, whose slots are both good, and the seconds that the node took to write the
/// release.
fn updates<'a>(
    site: &'a Site<'a>,
    lab: Lab<'a>,
    name: &'static str,
    architecture: Architecture,
) -> Result<(SlotDisk<'a>, f64)> {
    let lab = lab.with(architecture);
    lab.write_recipe(OLD, Releases::Folder)?;
    lab.build()?;
    lab.keep_old()?;
    let disk = SlotDisk::of(site, lab.old(), lab.keys()?, name)?.with(architecture);
    let port = free_port()?;
    let machine = disk.machine()?.forward(port, probe::UNPACK).timeout(TIMEOUT);
    let mut node = machine.start()?;
    node.wait_for_line(SLOT_GOOD, &["SLOT-A"])?;
    lab.write_recipe(NEW, Releases::Folder)?;
    lab.release()?;
    send(lab.repository(), port)?;
    let took = installs(&mut node)?;
    node.power_off()?;
    is_installed(site, &lab, &disk)?;
    Ok((disk, took))
}

/// The node in SLOT-B reboots into SLOT-A, which becomes good again, and does not update itself. A
/// slot on trial does not roll back. A setting that the newer release has kept is one of the older
/// release, too.
fn rolls_back(site: &Site, disk: &SlotDisk) -> Result<()> {
    let [socket, log, osd] = [free_port()?, free_port()?, free_port()?];
    let machine = disk.machine()?.forward(socket, probe::SOCKET).forward(log, probe::LOG);
    let mut node = machine.forward(osd, probe::OSD).timeout(TIMEOUT).start()?;
    let statuses = Statuses::new(site, osd)?;
    node.wait_for_line(SLOT, &["SLOT-B", NEW])?;
    node.wait_for(READY)?;
    statuses.set_parameter(&node)?;
    let reply = probe::ask_init(socket, ADMIN_SOCKET, &Request::RollBack)?;
    if reply.trim() != "ok" {
        return Err(node.failure(format!("the reply to `rollback` is {reply}")));
    }
    node.wait_for_line(NEXT, &["SLOT-A"])?;
    node.wait_for_line(SLOT, &["SLOT-A", OLD])?;
    node.wait_for(READY)?;
    let reply = probe::ask_init(socket, ADMIN_SOCKET, &Request::RollBack)?;
    if !reply.contains("SLOT-A is on trial") {
        return Err(node.failure(format!("the reply to `rollback` on trial is {reply}")));
    }
    node.wait_for_line(SLOT_GOOD, &["SLOT-A"])?;
    statuses.shows_the_parameter(&node)?;
    waits_for_log(&node, log, ROLLED_BACK)?;
    let reply = probe::ask_init(socket, ADMIN_SOCKET, &Request::CheckNow)?;
    if reply.trim() != "ok" {
        return Err(node.failure(format!("the reply to `check` is {reply}")));
    }
    waits_for_log(&node, log, CHECKS)?;
    node.power_off()?;
    disk.is(A, State { priority: 2, tries: 0, successful: true })?;
    disk.is(B, State { priority: 1, tries: 0, successful: true })
}

/// Copies a repository to the node's folder, through the port of the loopback that leads to
/// [`probe::UNPACK`].
pub fn send(repository: &Path, port: u16) -> Result<()> {
    probe::command(port, |stream| pack(repository, stream))
}

/// Sends a folder as a tar archive.
fn pack(folder: &Path, to: &mut TcpStream) -> io::Result<()> {
    let mut tar = Command::new("tar")
        .arg("--directory")
        .arg(folder)
        .args(["--create", "."])
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut archive) = tar.stdout.take() {
        io::copy(&mut archive, to)?;
    }
    if tar.wait()?.success() { to.flush() } else { Err(io::Error::other("`tar` failed")) }
}
