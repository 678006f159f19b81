//! A stick installs a machine with two disks: one that its rule matches, and one that must not
//! change. mtools edits the stick; `sgdisk`, `sfdisk` and `debugfs` check the disks.

pub mod http;
mod keyboard;
mod stick_machine;

use crate::check::Outcome;
use crate::site::Site;
use crate::vm::machine::SECURE_BOOT_ON;
use crate::vm::node::NodeUnderTest;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Bus;
use osbuild::ship::keys::{DEV, Keys};
use osbuild_abi::console::{
    INSTALLER_DONE, INSTALLER_ERASES, INSTALLER_STOPPED, SLOT_GOOD, SLOTBOOT_STARTS,
};
use std::fs;
use std::time::{Duration, Instant};
use stick_machine::{BootOrder, OTHER, StickMachine, TARGET};

/// The recipes of the sticks.
pub const RECIPE: &str = "usb-installer-amd64";
const ARM64: &str = "usb-installer-arm64";

/// How long the machine may take to print each expected line.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// A rule that matches both disks.
const AMBIGUOUS: &str = "unattended = true\n\n[disk]\nbus = \"nvme\"\n";

/// A rule that matches the target, with every other setting of a stick.
const RULE: &str = "countdown-s = 3\nenroll-keys = true\n\n\
                    [disk]\nbus = \"nvme\"\nserial = \"TARGET-1\"\n\n\
                    [files]\n\"/etc/kubernetes/kubelet.conf.d/99-own.conf\" = \"99-own.conf\"\n";
const UNATTENDED: &str = "unattended = true\n";

/// The file of the rule, and its path on DATA.
const FILE: &str = "99-own.conf";
const FILE_ON_DATA: &str = "/kubernetes/kubelet.conf.d/99-own.conf";
const FILE_TEXT: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 42\n";

/// The installer's question, the word that it expects, and its line after each quarter.
const ASKS: &str = "installer: type `begin`";
const WORD: &str = "begin";
const A_QUARTER: &str = " written";

/// The line that `init` prints after Ctrl-Alt-Del.
const REBOOTS: &str = "init: shutdown: reboot";

/// With a rule that matches two disks, the installer changes neither. With a rule that matches one,
/// it installs the node after the user has typed the word, even if a power cut interrupted an
/// earlier installation, and whatever partitions the disk has. It enrolls the stick's keys in the
/// firmware, which is in setup mode, and the machine reboots into the disk with Secure Boot
/// enforced while the stick is plugged in. If the firmware starts the stick again, the installed
/// node does not change. The disk boots without the stick, and the other disk does not change.
pub fn a_stick_installs_a_machine(site: &Site) -> Result<Outcome> {
    let machine = StickMachine::new(site, RECIPE)?;
    machine.is_verified()?;
    let before = machine.digests()?;
    ambiguous(&machine)?;
    same(&before, &machine.digests()?, "a disk was changed although the rule matches two")?;
    put_rule(&machine, UNATTENDED)?;
    machine.put_onto_stick(FILE, FILE_TEXT)?;
    machine.put_keys_onto_stick()?;
    cut_short(&machine)?;
    if machine.has_table(TARGET)? {
        return Err(Error::build(
            "a disk whose installation was interrupted has a partition table",
        ));
    }
    machine.partition(TARGET)?;
    put_rule(&machine, "")?;
    let took = installs(&machine, "installer", true)?;
    machine.has_own_identifiers()?;
    put_rule(&machine, UNATTENDED)?;
    does_not_change_a_node(&machine)?;
    same(&before[1..], &machine.digests()?[1..], "the other disk was changed")?;
    let text = machine.file_on_data(FILE_ON_DATA)?.unwrap_or_default();
    if !text.contains(FILE_TEXT) {
        return Err(Error::build(format!(
            "`{FILE_ON_DATA}` on DATA differs from the stick's file"
        ))
        .cause(text));
    }
    let summary = boots_alone(site, &machine)?;
    Ok(Outcome {
        passed: 10,
        summary: format!("installed in {took:.1} s; {summary}"),
        ..Outcome::default()
    })
}

/// The stick for arm64 does the same, unattended.
pub fn a_stick_installs_a_machine_with_arm64(site: &Site) -> Result<Outcome> {
    let machine = StickMachine::new(site, ARM64)?;
    machine.partition(TARGET)?;
    let before = machine.digests()?;
    put_rule(&machine, UNATTENDED)?;
    machine.put_onto_stick(FILE, FILE_TEXT)?;
    machine.put_keys_onto_stick()?;
    let took = installs(&machine, "installer-arm64", false)?;
    same(&before[1..], &machine.digests()?[1..], "the other disk was changed")?;
    if !machine.is_stick_good()? {
        return Err(Error::build("each machine costs the stick a try"));
    }
    Ok(Outcome { passed: 3, summary: format!("installed in {took:.1} s"), ..Outcome::default() })
}

/// How long a stick takes to install a machine, from the first byte to the reboot.
pub fn time(site: &Site) -> Result<Duration> {
    let machine = StickMachine::new(site, RECIPE)?;
    put_rule(&machine, UNATTENDED)?;
    machine.put_onto_stick(FILE, FILE_TEXT)?;
    machine.put_keys_onto_stick()?;
    Ok(Duration::from_secs_f64(installs(&machine, "bench-install", false)?))
}

fn put_rule(machine: &StickMachine, more: &str) -> Result<()> {
    machine.put_onto_stick("installer.toml", &format!("{more}{RULE}"))
}

/// The stick reports that both disks match, and installs nothing. Ctrl-Alt-Del reboots the machine
/// in order.
fn ambiguous(machine: &StickMachine) -> Result<()> {
    machine.put_onto_stick("installer.toml", AMBIGUOUS)?;
    let mut node = machine.start(BootOrder::Variables, "installer-ambiguous")?;
    let output = node.wait_for(INSTALLER_STOPPED)?;
    machine.keyboard().press(&["ctrl", "alt", "delete"])?;
    node.wait_for(REBOOTS)?;
    node.power_off()?;
    if output.contains("2 disks fit the rule") {
        Ok(())
    } else {
        Err(Error::build("the reason is not that two disks match").cause(output))
    }
}

/// Compares digests; `message` is the error if they differ.
fn same(before: &[String], after: &[String], message: &str) -> Result<()> {
    if before == after { Ok(()) } else { Err(Error::build(message)) }
}

/// Cuts the power when a part of the image is written.
fn cut_short(machine: &StickMachine) -> Result<()> {
    let mut node = machine.start(BootOrder::Variables, "installer-cut")?;
    let erases = node.wait_for(INSTALLER_ERASES)?;
    if !erases.contains(TARGET) || erases.contains(OTHER) {
        return Err(Error::build("the installer erases another disk").cause(erases));
    }
    node.wait_for(A_QUARTER)?;
    node.power_off()
}

/// Installs the machine, after the user has typed the word if it `asks`; the machine reboots into
/// the disk although the stick is plugged in. Returns the seconds from the first byte to the
/// reboot.
fn installs(machine: &StickMachine, log: &str, asks: bool) -> Result<f64> {
    let mut node = machine.start(BootOrder::Variables, log)?;
    node.wait_for(INSTALLER_ERASES)?;
    if asks {
        node.wait_for(ASKS)?;
        machine.keyboard().type_line("no")?;
        node.wait_for(ASKS)?;
        machine.keyboard().type_line(WORD)?;
    }
    node.wait_for("installer: starts in 1 s")?;
    let started = Instant::now();
    node.wait_for(INSTALLER_DONE)?;
    let took = started.elapsed().as_secs_f64();
    boots_the_disk(&mut node)?;
    node.wait_for(SLOT_GOOD)?;
    node.power_off()?;
    Ok(took)
}

/// On firmware that always starts the stick, the stick first reboots into the installed node; when
/// the firmware starts the stick again, the installer explains that and stops.
fn does_not_change_a_node(machine: &StickMachine) -> Result<()> {
    machine.reset_firmware()?;
    let before = machine.digests()?;
    let mut node = machine.start(BootOrder::Stick, "installer-again")?;
    let done = node.wait_for(INSTALLER_DONE)?;
    let stopped = node.wait_for(INSTALLER_STOPPED)?;
    node.power_off()?;
    if !done.contains("already held a node") || !stopped.contains("take the stick out") {
        return Err(Error::build("the installer does not recognize the node")
            .cause(format!("{done}\n{stopped}")));
    }
    same(&before, &machine.digests()?, "the installed node was changed")
}

/// The machine reboots, with Secure Boot enforced, into a node whose DATA is on an NVMe disk.
fn boots_the_disk(node: &mut NodeUnderTest) -> Result<()> {
    node.wait_for(SLOTBOOT_STARTS)?;
    node.wait_for(SECURE_BOOT_ON)?;
    let data = node.wait_for("init: data: ")?;
    if data.contains("/dev/nvme") {
        Ok(())
    } else {
        Err(Error::build("the machine has not rebooted into its disk").cause(data))
    }
}

/// The disk boots without the stick, on another machine with Secure Boot enforced.
fn boots_alone(site: &Site, machine: &StickMachine) -> Result<String> {
    let name = "installer-alone";
    let boot = machine
        .machine(Bus::Nvme, machine.disk(TARGET), name)?
        .trusting(Keys::named(&site.project(), DEV)?.trust()?)
        .timeout(TIMEOUT)
        .run_until_ready()?;
    let output =
        fs::read_to_string(site.log(name)).or_build(|| "cannot read the console".to_owned())?;
    if output.contains(SECURE_BOOT_ON) {
        Ok(boot.summary())
    } else {
        Err(Error::build("the firmware does not enforce Secure Boot"))
    }
}
