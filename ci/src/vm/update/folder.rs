//! A node without a network that finds a release in a folder of its own, which an administrator's
//! pod fills.

use super::lab::{Lab, Releases};
use super::{NEW, OLD, installs, is_installed};
use crate::check::Verdict;
use crate::site::Site;
use crate::vm::node::{free_port, tell};
use crate::vm::slots::disk::{B, Disk};
use crate::vm::slots::faults::passes_over;
use crate::vm::slots::hears;
use osbuild::error::Result;
use osbuild::plan::Architecture;
use osbuild::ship::vm::machine::Forward;
use osbuild_abi::console::SLOT_GOOD;
use osbuild_abi::slot::HEADER_SIZE;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The names of the copies and of the consoles' logs.
const FOLDER: &str = "update-folder";
const FOLDER_ARM64: &str = "update-folder-arm64";

/// Where the probe, which stands for the administrator's pod, takes a tar archive.
const PORT: u16 = 7074;

/// The node writes the release into its other slot, reboots into it by itself, and becomes a good
/// one; there is no server.
pub fn a_node_updates_itself_from_a_folder(site: &Site) -> Result<Verdict> {
    let (_, took) = updates(site, FOLDER, Architecture::Amd64)?;
    Ok(Verdict { passed: 4, said: format!("installed in {took:.1} s"), ..Verdict::default() })
}

/// So does a node with arm64; and when its new slot is damaged later, it is back in the older one.
pub fn a_node_with_arm64_updates_itself_and_goes_back(site: &Site) -> Result<Verdict> {
    let (disk, took) = updates(site, FOLDER_ARM64, Architecture::Arm64)?;
    disk.flip(disk.start(B)? + HEADER_SIZE + (20 << 20))?;
    passes_over(&disk, "the firmware refuses it")?;
    Ok(Verdict { passed: 5, said: format!("installed in {took:.1} s"), ..Verdict::default() })
}

/// Gives the disk, whose slots are both good then, and the seconds that writing the release took.
fn updates<'a>(
    site: &'a Site<'a>,
    name: &'static str,
    architecture: Architecture,
) -> Result<(Disk<'a>, f64)> {
    let lab = Lab::new(site, name)?.with(architecture);
    lab.write_recipe(OLD, Releases::Folder)?;
    lab.build()?;
    lab.keep_old()?;
    let disk = Disk::of(site, lab.old(), lab.keys()?, name)?.with(architecture);
    let port = free_port()?;
    let mut node = disk.boot_forwarding(Forward { host: port, node: PORT })?;
    hears(&mut node, SLOT_GOOD, &["SLOT-A"])?;
    lab.write_recipe(NEW, Releases::Folder)?;
    lab.release()?;
    tell(port, |stream| pack(&lab.repository(), stream))?;
    let took = installs(&mut node)?;
    node.power_off()?;
    is_installed(site, &lab, &disk)?;
    Ok((disk, took))
}

/// Has `tar` send a folder.
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
