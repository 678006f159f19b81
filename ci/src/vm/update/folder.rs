//! A node without a network that installs a release from a folder, which an administrator's pod
//! fills.

use super::lab::{Lab, Releases};
use super::{NEW, OLD, TIMEOUT, installs, is_installed};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::probe::{self, free_port};
use crate::vm::slots::disk::{B, SlotDisk};
use crate::vm::slots::faults::passes_over;
use osbuild::error::Result;
use osbuild::plan::Architecture;
use osbuild_abi::console::SLOT_GOOD;
use osbuild_abi::slot::HEADER_SIZE;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The names of the copies and of the consoles' logs.
const FOLDER: &str = "update-folder";
const FOLDER_ARM64: &str = "update-folder-arm64";

/// Without a server: the node writes the release to its other slot, reboots into it by itself, and
/// becomes good. The probe stands for the administrator's pod.
pub fn a_node_updates_itself_from_a_folder(site: &Site) -> Result<Outcome> {
    let (_, took) = updates(site, FOLDER, Architecture::Amd64)?;
    Ok(Outcome { passed: 4, summary: format!("installed in {took:.1} s"), ..Outcome::default() })
}

/// A node with arm64 does the same; when its new slot is damaged later, it falls back.
pub fn a_node_with_arm64_updates_itself_and_goes_back(site: &Site) -> Result<Outcome> {
    let (disk, took) = updates(site, FOLDER_ARM64, Architecture::Arm64)?;
    disk.flip(disk.offset(B)? + HEADER_SIZE + (20 << 20))?;
    passes_over(&disk, "the firmware refuses it")?;
    Ok(Outcome { passed: 5, summary: format!("installed in {took:.1} s"), ..Outcome::default() })
}

/// Returns the disk, whose slots are both good, and the seconds that the node took to write the
/// release.
fn updates<'a>(
    site: &'a Site<'a>,
    name: &'static str,
    architecture: Architecture,
) -> Result<(SlotDisk<'a>, f64)> {
    let lab = Lab::new(site, name)?.with(architecture);
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
