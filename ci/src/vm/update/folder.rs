//! A node without a network that finds a release in a folder of its own, which an administrator's pod fills.

use super::lab::{Lab, Releases};
use super::{NEW, OLD, installs, is_installed};
use crate::check::Verdict;
use crate::site::Site;
use crate::vm::node::{free_port, tell};
use crate::vm::slots::disk::Disk;
use crate::vm::slots::hears;
use osbuild::error::Result;
use osbuild::ship::machine::Forward;
use osbuild_abi::console::SLOT_GOOD;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The name of the copy and of the console's log.
const FOLDER: &str = "update-folder";

/// Where the probe, which stands for the administrator's pod, takes a tar archive.
const PORT: u16 = 7074;

/// The node writes the release into its other slot, reboots into it by itself, and becomes a good one; there is no server.
pub fn a_node_updates_itself_from_a_folder(site: &Site) -> Result<Verdict> {
    let lab = Lab::new(site, FOLDER)?;
    lab.write_recipe(OLD, Releases::Folder)?;
    lab.build()?;
    lab.keep_old()?;
    let disk = Disk::of(site, lab.old(), lab.keys()?, FOLDER)?;
    let port = free_port()?;
    let mut node = disk.boot_forwarding(Forward { host: port, node: PORT })?;
    hears(&mut node, SLOT_GOOD, &["SLOT-A"])?;
    lab.write_recipe(NEW, Releases::Folder)?;
    lab.release()?;
    tell(port, |stream| pack(&lab.repository(), stream))?;
    let took = installs(&mut node)?;
    node.power_off()?;
    is_installed(site, &lab, &disk)?;
    Ok(Verdict { passed: 4, said: format!("installed in {took:.1} s"), ..Verdict::default() })
}

/// Has `tar` send a folder.
fn pack(folder: &Path, to: &mut TcpStream) -> io::Result<()> {
    let mut tar = Command::new("tar").arg("--directory").arg(folder).args(["--create", "."]).stdout(Stdio::piped()).spawn()?;
    if let Some(mut archive) = tar.stdout.take() {
        io::copy(&mut archive, to)?;
    }
    if tar.wait()?.success() { to.flush() } else { Err(io::Error::other("`tar` failed")) }
}
