//! A node installs a release from a web server or from a folder by itself, with Secure Boot
//! enforced. `cgpt`, `sgdisk`, mtools and `fsck.fat` check its disk.

mod folder;
pub mod lab;
mod old_release;
mod release_3366aed;
pub mod server;
mod status;

use super::node::NodeUnderTest;
use super::probe::{self, free_port};
use super::slots::disk::{A, B, Slot, SlotDisk};
use crate::check::Outcome;
use crate::site::Site;
pub use folder::{
    a_node_updates_itself_from_a_folder, a_node_with_arm64_updates_itself_and_goes_back,
};
use lab::{Lab, NAME, Releases};
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::console::{SLOT, SLOT_GOOD, SLOTBOOT_STARTS};
use osbuild_abi::disk::ALIGNMENT;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_protocol::Contents;
use osbuild_slots::{Header, State};
pub use release_3366aed::a_node_of_3366aed_updates_itself_and_goes_back;
use server::Server;
use status::{Statuses, phases_of_installation};
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// The version that boots first, and the version of the update.
pub const OLD: &str = "1.0.0";
pub const NEW: &str = "1.0.1";

/// How long the node may take to print each expected line.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// The file with the [`Recorded`], written when the update has been recorded; and the recording.
const RECORDED: &str = "recorded";
const RECORDING: &str = "recording";

/// The messages of `init`, after the name of the slot, when it has given the slot to the updater,
/// and when the slot is complete.
pub const OPENED: &str = " is opened for an update";
pub const NEXT: &str = " is booted next";

/// The lines that `init` prints during an orderly reboot, in this order.
const REBOOT: [&str; 3] = ["shutdown: begins", "shutdown: unmounts", "shutdown: reboot"];

/// Size of the disk in MiB: more than the image's, so that DATA grows.
pub const DISK_MIB: u64 = 1024;

/// How many files the probe writes, each flushed before the next.
const SYNCED: u32 = 40;

/// The rollout of a release for no node yet, and the message of a node about it.
const LATER: &str = "begins = '2999-01-01T00:00:00Z'";
const WAITS: &str = "1.0.1 waits for its wave, which begins at 2999-01-01T00:00:00Z";

/// The node waits until the release's rollout allows the update. Then it writes the release to its
/// other slot, replaces slotboot, reboots into the slot by itself, and becomes good. Its status
/// shows all of it.
pub fn a_node_updates_itself(site: &Site) -> Result<Outcome> {
    let recorded = RecordedUpdate::new(site)?;
    let summary = format!(
        "installed in {:.1} s, plain `dd` on this machine {:.1} s",
        recorded.took,
        recorded.lab.plain_copy()?
    );
    Ok(Outcome { passed: 10, summary, ..Outcome::default() })
}

/// A node's first boot, its update, and the first boot of the update, with a recording of every
/// write to the disk.
pub struct RecordedUpdate<'a> {
    /// The recipe, and the repository.
    pub lab: Lab<'a>,
    /// Serves the repository.
    _server: Server,
    /// How long the update took, in seconds.
    took: f64,
}

impl<'a> RecordedUpdate<'a> {
    /// The recording that an earlier check made of the same images, or else a new one, also if
    /// another program uses the port that is in these images.
    pub fn existing_or_new(site: &'a Site<'a>) -> Result<Self> {
        let lab = Lab::existing(site, NAME).with_osd();
        let note = fs::read_to_string(lab.file(RECORDED)).unwrap_or_default();
        let port = Recorded::usable(&note, |port| images_of_today(&lab, port))?;
        match port.map(|port| Server::start(site, &lab, port)) {
            Some(Ok(server)) => Ok(RecordedUpdate { lab, _server: server, took: 0.0 }),
            _ => Self::new(site),
        }
    }

    /// Boots a node, updates it, and records that.
    ///
    /// # Errors
    /// The node does not update itself.
    pub fn new(site: &'a Site<'a>) -> Result<Self> {
        let lab = Lab::new(site, NAME)?.with_osd();
        let server = Server::start(site, &lab, 0)?;
        lab.write_recipe(OLD, Releases::Web(server.port()))?;
        lab.build()?;
        let old = Digest::of_file(&lab.image())?.hex();
        lab.replace_boot_program()?;
        lab.keep_old()?;
        let disk = SlotDisk::of(site, lab.old(), lab.keys()?, NAME)?;
        let took = record(site, &lab, &server, &disk)?;
        is_installed(site, &lab, &disk)?;
        let images = [old, Digest::of_file(&lab.image())?.hex()];
        let note = Recorded { port: server.port(), images };
        fs::write(lab.file(RECORDED), note.to_string())
            .or_build(|| "cannot note that the update was recorded".to_owned())?;
        Ok(RecordedUpdate { lab, _server: server, took })
    }

    /// The recording of the machine's writes from its first boot on.
    pub fn recording(&self) -> PathBuf {
        self.lab.file(RECORDING)
    }
}

/// The images of a recording: other ones make it obsolete.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    /// The port of the web server, whose address is in the images.
    port: u16,
    /// The digests of the images with [`OLD`] and [`NEW`], as they were built.
    images: [String; 2],
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.port, self.images.join(" "))
    }
}

impl Recorded {
    /// The port of the recording with this note, if `today` makes its images from this port.
    fn usable(note: &str, today: impl FnOnce(u16) -> Result<[String; 2]>) -> Result<Option<u16>> {
        let [port, old, new] = note.split_whitespace().collect::<Vec<_>>()[..] else {
            return Ok(None);
        };
        let Ok(port) = port.parse() else { return Ok(None) };
        Ok((today(port)? == [old, new]).then_some(port))
    }
}

/// The digests of the images that the lab would build today. Everything that is compiled is in the
/// store after the first time.
fn images_of_today(lab: &Lab, port: u16) -> Result<[String; 2]> {
    let again = lab.again()?;
    let image = |version| {
        again.write_recipe(version, Releases::Web(port))?;
        again.build()?;
        Ok::<_, Error>(Digest::of_file(&again.image())?.hex())
    };
    let images = [image(OLD)?, image(NEW)?];
    again.remove()?;
    Ok(images)
}

/// Boots the node and updates it, and returns the seconds that the update took. Its status shows
/// each phase.
fn record(site: &Site, lab: &Lab, server: &Server, disk: &SlotDisk) -> Result<f64> {
    let [port, log, socket, osd] = [free_port()?, free_port()?, free_port()?, free_port()?];
    let machine = disk.machine()?.disk_size(DISK_MIB).record(lab.file(RECORDING));
    let machine = machine.forward(log, probe::LOG).forward(socket, probe::SOCKET);
    let machine = machine.forward(osd, probe::OSD);
    let mut node = machine.forward(port, probe::SYNC).timeout(TIMEOUT).start()?;
    node.wait_for_line(SLOT_GOOD, &["SLOT-A"])?;
    let statuses = Statuses::new(site, osd)?;
    statuses.shows_a_failure(&node)?;
    probe::command(port, |stream| write!(stream, "{SYNCED}"))?;
    lab.write_recipe(NEW, Releases::Web(server.port()))?;
    lab.release_by(LATER)?;
    waits(&node, log, socket)?;
    statuses.shows_the_offer(&node, WAITS)?;
    let phases = spawn(move || phases_of_installation(socket));
    lab.release_to_all()?;
    let took = installs(&mut node)?;
    let phases = phases.join().expect("the thread does not panic");
    if !phases.ends_with(&["downloading", "installed"]) {
        return Err(node.failure(format!("the updater has reported the phases {phases:?}")));
    }
    statuses.shows_the_update(&node)?;
    node.power_off()?;
    Ok(took)
}

/// Waits until the updater's log has the line [`WAITS`]. The other slot is still empty then.
fn waits(node: &NodeUnderTest, log: u16, socket: u16) -> Result<()> {
    waits_for_log(node, log, WAITS)?;
    match probe::slots(socket)?.other.map(|slot| slot.contents) {
        Some(Contents::Empty) => Ok(()),
        other => Err(node.failure(format!("the other slot is not empty: {other:?}"))),
    }
}

/// Waits until the updater's log has the line.
fn waits_for_log(node: &NodeUnderTest, log: u16, line: &str) -> Result<()> {
    let ends = Instant::now() + TIMEOUT;
    loop {
        let found = probe::request(log, |stream| write!(stream, "updater"))?;
        if found.contains(line) {
            return Ok(());
        }
        if Instant::now() > ends {
            return Err(node.failure(format!("the updater's log lacks `{line}`: {found}")));
        }
        sleep(Duration::from_secs(1));
    }
}

/// Waits until the node has written the release [`NEW`] to its other slot, booted it, and found it
/// good. Returns the seconds that it took to write the release.
fn installs(node: &mut NodeUnderTest) -> Result<f64> {
    installs_in(node, B, NEW)
}

/// Like [`installs`], with the slot and the version.
fn installs_in(node: &mut NodeUnderTest, slot: Slot, version: &str) -> Result<f64> {
    let name = slot.name();
    node.wait_for_line(OPENED, &[name])?;
    let opened = Instant::now();
    node.wait_for_line(NEXT, &[name])?;
    let took = opened.elapsed().as_secs_f64();
    REBOOT.iter().try_for_each(|line| node.wait_for(line).map(drop))?;
    node.wait_for_line(SLOTBOOT_STARTS, &[name, version, "on trial, tries left: 2"])?;
    node.wait_for_line(SLOT, &[name, version])?;
    node.wait_for_line(SLOT_GOOD, &[name])?;
    Ok(took)
}

/// SLOT-B and the system partition hold the release [`NEW`], and both slots are good, the new one
/// first.
fn is_installed(site: &Site, lab: &Lab, disk: &SlotDisk) -> Result<()> {
    is_installed_in(site, lab, disk, B, NEW)
}

/// Like [`is_installed`], with the slot and the version.
fn is_installed_in(
    site: &Site,
    lab: &Lab,
    disk: &SlotDisk,
    slot: Slot,
    version: &str,
) -> Result<()> {
    let name = slot.name();
    disk.is_sound()?;
    disk.is(slot.other(), State { priority: 1, tries: 0, successful: true })?;
    disk.is(slot, State { priority: 2, tries: 0, successful: true })?;
    let uki = lab.uki()?;
    let bytes = disk.read(disk.offset(slot)?, HEADER_SIZE + uki.len() as u64)?;
    let header = Header::parse(&bytes).or_build(|| format!("{name} has no header"))?;
    if header.version != version || bytes[HEADER_SIZE as usize..] != *uki {
        return Err(Error::build(format!("{name} does not hold the release")));
    }
    if lab.boot_program(&disk.path())? != lab.boot_program(&lab.image())? {
        return Err(Error::build("the system partition does not hold the release's slotboot"));
    }
    let system = tempfile::NamedTempFile::new().or_build(|| "cannot make a file".to_owned())?;
    let length = disk.offset(A)? - ALIGNMENT;
    fs::write(system.path(), disk.read(ALIGNMENT, length)?)
        .or_build(|| "cannot copy the system partition".to_owned())?;
    site.finish("update-fsck", Command::new("fsck.fat").arg("-n").arg(system.path())).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_updater_makes_the_recording_obsolete() {
        let images = |updater: &str| [OLD, NEW].map(|version| format!("{version}-{updater}"));
        let note = Recorded { port: 8443, images: images("a") }.to_string();
        let usable = |updater| {
            Recorded::usable(&note, |port| {
                assert_eq!(port, 8443);
                Ok(images(updater))
            })
        };
        assert_eq!(usable("a").unwrap(), Some(8443));
        assert_eq!(usable("b").unwrap(), None);
    }

    #[test]
    fn a_note_of_another_form_is_no_recording() {
        for note in ["", "0f3c 8443", "port a b"] {
            let built = |_| -> Result<[String; 2]> { panic!("nothing is built for `{note}`") };
            assert_eq!(Recorded::usable(note, built).unwrap(), None);
        }
    }
}
