//! A node that finds a release on a web server, or in a folder, and installs it by itself, with
//! Secure Boot enforced. `cgpt`, `sgdisk`, mtools and `fsck.fat` look at the disk that it leaves.

mod folder;
pub mod lab;
pub mod server;

use super::node::{free_port, tell};
use super::slots::disk::{A, B, Disk};
use super::slots::hears;
use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
pub use folder::{
    a_node_updates_itself_from_a_folder, a_node_with_arm64_updates_itself_and_goes_back,
};
use lab::{Lab, NAME, Releases};
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::vm::machine::Forward;
use osbuild::ship::vm::node::Node;
use osbuild::ship::vm::run::RunOptions;
use osbuild_abi::console::{SLOT, SLOT_GOOD, SLOTBOOT_STARTS};
use osbuild_abi::disk::ALIGNMENT;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::{Header, State};
use server::Server;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// What runs first, and what it is updated to.
pub const OLD: &str = "1.0.0";
pub const NEW: &str = "1.0.1";

/// How long the firmware, the kernel and the node may take for what is waited for.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The file that says that it was played, of which image and at which port; and the one with what
/// the machine wrote.
const PLAYED: &str = "played";
const RECORDING: &str = "recording";

/// What `init` says when the updater has got the slot, and when the slot is whole.
pub const OPENED: &str = "SLOT-B is opened for an update";
pub const NEXT: &str = "SLOT-B is booted next";

/// What it says when the node ends in order, in that order: with its pods, DATA given back, by its
/// own will.
const ENDS: [&str; 3] = ["shutdown: begins", "shutdown: unmounts", "shutdown: reboot"];

/// Size of the disk in MiB: more than the image's, so that DATA grows.
pub const DISK_MIB: u64 = 1024;

/// Where the probe takes the number of files to write.
const PORT: u16 = 7073;

/// How many files it writes, each flushed before the next.
const SYNCED: u32 = 40;

/// The node writes the release into its other slot, replaces slotboot, reboots into it by itself,
/// and becomes a good one.
pub fn a_node_updates_itself(site: &Site) -> Result<Verdict> {
    let played = Played::now(site)?;
    let said = format!(
        "installed in {:.1} s, plain `dd` on this machine {:.1} s",
        played.took,
        played.lab.plain_copy()?
    );
    Ok(Verdict { passed: 5, said, ..Verdict::default() })
}

/// A node's life from its first boot to the first boot of its update, and all that its machine
/// wrote to the disk meanwhile.
pub struct Played<'a> {
    /// The recipe, and the repository.
    pub lab: Lab<'a>,
    /// It serves the repository.
    _server: Server,
    /// How long the update took, in seconds.
    took: f64,
}

impl<'a> Played<'a> {
    /// What a check of this very image has left, or else a new one.
    pub fn any(site: &'a Site<'a>) -> Result<Self> {
        let lab = Lab::existing(site, NAME);
        let left = fs::read_to_string(lab.file(PLAYED)).unwrap_or_default();
        match left.split_once(' ').and_then(|(of, port)| Some((of, port.parse().ok()?))) {
            Some((of, port)) if of == image(site)? => {
                let server = Server::start(site, &lab, port)?;
                Ok(Played { lab, _server: server, took: 0.0 })
            }
            _ => Self::now(site),
        }
    }

    /// A new one.
    ///
    /// # Errors
    /// The node does not update itself.
    pub fn now(site: &'a Site<'a>) -> Result<Self> {
        let lab = Lab::new(site, NAME)?;
        let server = Server::start(site, &lab, 0)?;
        lab.write_recipe(OLD, Releases::Web(server.port()))?;
        lab.build()?;
        lab.wear_another_boot_program()?;
        lab.keep_old()?;
        let disk = Disk::of(site, lab.old(), lab.keys()?, NAME)?;
        let took = play(&lab, &server, &disk)?;
        is_installed(site, &lab, &disk)?;
        let played = format!("{} {}", image(site)?, server.port());
        fs::write(lab.file(PLAYED), played)
            .or_build(|| "cannot note that the update was played".to_owned())?;
        Ok(Played { lab, _server: server, took })
    }

    /// The recording of what the machine wrote, from its first boot on.
    pub fn recording(&self) -> PathBuf {
        self.lab.file(RECORDING)
    }
}

/// The image that all this hangs on.
fn image(site: &Site) -> Result<String> {
    Ok(Digest::of_file(&site.project().join("out").join(RECIPE).join("image.raw"))?.hex())
}

/// Has the node live, and gives the seconds that the update took.
fn play(lab: &Lab, server: &Server, disk: &Disk) -> Result<f64> {
    let port = free_port()?;
    let mut node = disk.boot_with(|options| RunOptions {
        disk_size_mib: Some(DISK_MIB),
        record: Some(lab.file(RECORDING)),
        forwards: vec![Forward { host: port, node: PORT }],
        ..options
    })?;
    hears(&mut node, SLOT_GOOD, &["SLOT-A"])?;
    tell(port, |stream| write!(stream, "{SYNCED}"))?;
    lab.write_recipe(NEW, Releases::Web(server.port()))?;
    lab.release()?;
    let took = installs(&mut node)?;
    node.power_off()?;
    Ok(took)
}

/// Waits until the node has put the release into its other slot, booted it, and found it good.
/// Gives the seconds that writing it took.
fn installs(node: &mut Node) -> Result<f64> {
    node.hear(OPENED, PATIENCE)?;
    let opened = Instant::now();
    node.hear(NEXT, PATIENCE)?;
    let took = opened.elapsed().as_secs_f64();
    ENDS.iter().try_for_each(|line| node.hear(line, PATIENCE).map(drop))?;
    hears(node, SLOTBOOT_STARTS, &["SLOT-B", NEW, "on trial, tries left: 2"])?;
    hears(node, SLOT, &["SLOT-B", NEW])?;
    hears(node, SLOT_GOOD, &["SLOT-B"])?;
    Ok(took)
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
    fs::write(system.path(), disk.read(ALIGNMENT, length)?)
        .or_build(|| "cannot copy the system partition".to_owned())?;
    site.finish("update-fsck", Command::new("fsck.fat").arg("-n").arg(system.path())).map(drop)
}
