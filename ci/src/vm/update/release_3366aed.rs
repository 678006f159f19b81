//! Today's release and that of commit `3366aed` understand each other on one disk. Each installs
//! the other, starts under the other's slotboot, and goes on with the other's DATA.
//!
//! The old release is built by its own `osbuild` from its own locks, in the store of today's
//! builds. While both releases have the same kernel, kubelet, containerd and runc, only the old
//! release's own programs are compiled: three minutes on two cores. After today's recipe has moved
//! on, the first run on a machine with an empty store also compiles the old ones, for half an hour.

use super::folder::send;
use super::lab::{Lab, Releases};
use super::{DISK_MIB, NEW, OLD, TIMEOUT, installs_in, is_installed_in};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use crate::vm::slots::LAST_TRY;
use crate::vm::slots::disk::{A, B, Slot, SlotDisk};
use osbuild::error::{Error, Result};
use osbuild_abi::console::{READY, SLOT, SLOT_GOOD, SLOTBOOT_STARTS};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_protocol::{PassReason, StartReason};
use osbuild_slots::State;

/// The folders of the two labs. The second one is also the name of the consoles' logs.
const OLD_LAB: &str = "release-3366aed";
const NEW_LAB: &str = "update-from-3366aed";

/// The version of the old release that a node with today's installs: an update needs a higher one.
const BACK: &str = "1.0.2";

/// The host name that DHCP gives until today's release is installed. Later boots read it from DATA.
const HOST_NAME: &str = "edge-7";

/// A slot on trial, behind the one with [`LAST_TRY`].
const ON_TRIAL: State = State { priority: 2, tries: 2, successful: false };

/// A node of the old release installs today's release, and then the old one again. Each release
/// also starts under the other's slotboot, after the other's slot was damaged.
pub fn a_node_of_3366aed_updates_itself_and_goes_back(site: &Site) -> Result<Outcome> {
    let releases = OldAndNew::build(site)?;
    let forth = releases.updates()?;
    let back = releases.goes_back()?;
    // Today's slotboot and the old `init`, and the other way round.
    releases.falls_back(&releases.new, B, A)?;
    releases.falls_back(&releases.old, A, B)?;
    let summary = format!("installed in {forth:.1} s, and the old release in {back:.1} s");
    Ok(Outcome { passed: 4, summary, ..Outcome::default() })
}

/// Both releases, and a node.
struct OldAndNew<'a> {
    site: &'a Site<'a>,
    old: Lab<'a>,
    new: Lab<'a>,
    /// First the old release is in SLOT-A, then today's in SLOT-B.
    disk: SlotDisk<'a>,
    /// Port of the loopback for the repository.
    unpack: u16,
    /// Port of the loopback for `init`.
    socket: u16,
}

impl<'a> OldAndNew<'a> {
    /// Builds both releases before a machine runs: a compiler would slow down an emulated machine.
    fn build(site: &'a Site<'a>) -> Result<Self> {
        let old = Lab::of_old_release(site, OLD_LAB)?;
        old.write_recipe(OLD, Releases::Folder)?;
        old.build()?;
        old.keep_old()?;
        let new = Lab::beside(site, NEW_LAB, &old)?;
        new.write_recipe(NEW, Releases::Folder)?;
        new.build()?;
        let disk = SlotDisk::of(site, old.old(), old.keys()?, NEW_LAB)?;
        Ok(OldAndNew { site, old, new, disk, unpack: free_port()?, socket: free_port()? })
    }

    fn machine(&self) -> Result<Machine<'a>> {
        let machine = self.disk.machine()?.disk_size(DISK_MIB).timeout(TIMEOUT);
        Ok(machine.forward(self.unpack, probe::UNPACK).forward(self.socket, probe::SOCKET))
    }

    /// The old release installs today's, which becomes good. Returns the seconds that the node took
    /// to write the release.
    fn updates(&self) -> Result<f64> {
        let mut node = self.machine()?.hostname(HOST_NAME).start()?;
        node.wait_for_line(SLOT_GOOD, &["SLOT-A"])?;
        self.new.release()?;
        send(self.new.repository(), self.unpack)?;
        let took = installs_in(&mut node, B, NEW)?;
        self.reports(&node, StartReason::OnTrial { tries_left: 2 }, None)?;
        node.power_off()?;
        is_installed_in(self.site, &self.new, &self.disk, B, NEW)?;
        Ok(took)
    }

    /// Today's release boots as a good one and installs the old one, which becomes good. Returns
    /// the seconds that the node took to write the release.
    fn goes_back(&self) -> Result<f64> {
        let mut node = self.machine()?.start()?;
        node.wait_for_line(SLOT, &["SLOT-B", NEW])?;
        node.wait_for(READY)?;
        self.reports(&node, StartReason::Good, None)?;
        self.old.write_recipe(BACK, Releases::Folder)?;
        self.old.release()?;
        send(self.old.repository(), self.unpack)?;
        let took = installs_in(&mut node, A, BACK)?;
        self.reports(&node, StartReason::OnTrial { tries_left: 2 }, None)?;
        node.power_off()?;
        is_installed_in(self.site, &self.old, &self.disk, A, BACK)?;
        Ok(took)
    }

    /// The slotboot of `lab` passes over the damaged slot `bad`. `init` of the other slot
    /// understands its report, and marks its own slot as good.
    fn falls_back(&self, lab: &Lab, bad: Slot, to: Slot) -> Result<()> {
        self.disk.replace_slotboot(&lab.boot_program(&lab.image())?)?;
        let byte = self.disk.offset(bad)? + HEADER_SIZE + (20 << 20);
        self.disk.flip(byte)?;
        self.disk.set(bad, LAST_TRY)?;
        self.disk.set(to, ON_TRIAL)?;
        let mut node = self.machine()?.start()?;
        let why = format!("passed over {}: the firmware refuses it", bad.name());
        let words = [to.name(), "on trial, tries left: 1", &why];
        node.wait_for_line(SLOTBOOT_STARTS, &words)?;
        node.wait_for_line(SLOT, &words)?;
        node.wait_for_line(SLOT_GOOD, &[to.name()])?;
        let started = StartReason::OnTrial { tries_left: 1 };
        self.reports(&node, started, Some(PassReason::Refused))?;
        node.power_off()?;
        self.disk.is(to, State { tries: 0, successful: true, ..ON_TRIAL })?;
        self.disk.is_sound()?;
        self.disk.flip(byte)
    }

    /// The node has its host name, and its `init` reports why slotboot started the running slot and
    /// passed over the other one.
    fn reports(
        &self,
        node: &NodeUnderTest,
        started: StartReason,
        passed: Option<PassReason>,
    ) -> Result<()> {
        let name = probe::status(self.socket)?.host_name;
        if name != HOST_NAME {
            return Err(node.failure(format!("the host name is `{name}`")));
        }
        let slots = probe::slots(self.socket)?;
        match (slots.started, slots.passed) == (started, passed) {
            true => Ok(()),
            false => Err(Error::build("`init` does not report why its slot runs")
                .cause(format!("{slots:?}"))),
        }
    }
}
