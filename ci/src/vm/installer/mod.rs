//! A stick that installs a machine: one stick, a disk that its rule means, and another disk that
//! nobody may touch. mtools edit the stick as any computer would; `sgdisk`, `sfdisk` and `debugfs`
//! look at what it leaves.

pub mod http;
mod keyboard;
mod machine;

use crate::check::Verdict;
use crate::site::Site;
use machine::{MEANT, Machine, OTHER, Starts};
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Bus;
use osbuild::ship::keys::{DEV, Keys};
use osbuild::ship::vm::machine::SecureBoot;
use osbuild::ship::vm::node::Node;
use osbuild::ship::vm::run::{RunOptions, Until, run};
use osbuild_abi::console::{
    INSTALLER_DONE, INSTALLER_ERASES, INSTALLER_STOPPED, SLOT_GOOD, SLOTBOOT_STARTS,
};
use std::fs;
use std::time::{Duration, Instant};

/// The recipe of the stick, and of the one for arm64.
pub const RECIPE: &str = "usb-installer-amd64";
const ARM64: &str = "usb-installer-arm64";

/// How long what is waited for may take.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A rule that fits both disks.
const AMBIGUOUS: &str = "unattended = true\n\n[disk]\nbus = \"nvme\"\n";

/// One that means the right one of them, and all else that a stick can ask for.
const RULE: &str = "countdown-s = 3\nenroll-keys = true\n\n[disk]\nbus = \"nvme\"\nserial = \"MEANT-1\"\n\n\
                    [files]\n\"/etc/kubernetes/kubelet.conf.d/99-own.conf\" = \"99-own.conf\"\n";
const UNATTENDED: &str = "unattended = true\n";

/// The file that it names, and where DATA has it.
const FILE: &str = "99-own.conf";
const FILE_ON_DATA: &str = "/kubernetes/kubelet.conf.d/99-own.conf";
const FILE_TEXT: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 42\n";

/// What the installer says when it asks, the word that it wants, and what it says when a quarter is
/// written, by which the power is cut.
const ASKS: &str = "installer: type `begin`";
const WORD: &str = "begin";
const A_QUARTER: &str = " written";

/// What a kernel says that the firmware has verified.
const SECURE: &str = "UEFI Secure Boot is enabled";

/// What `init` says when it has been asked by Ctrl-Alt-Del.
const REBOOTS: &str = "init: shutdown: reboot";

/// A rule that fits two disks touches neither. One that fits one installs it once somebody has
/// typed so, also when the power was cut in the midst before, and gives the firmware, which is in
/// setup mode, the stick's keys; the machine reboots into the disk while the stick is in, with
/// Secure Boot enforced. What partitions the disk had does not matter. A stick in a machine whose
/// firmware always starts it leaves the node alone. The disk boots without the stick, too. The
/// other disk stays as it was.
pub fn a_stick_installs_a_machine(site: &Site) -> Result<Verdict> {
    let machine = Machine::new(site, RECIPE)?;
    machine.is_verified()?;
    let before = machine.digests()?;
    ambiguous(&machine)?;
    same(&before, &machine.digests()?, "a disk was touched although the rule fits two")?;
    put_rule(&machine, UNATTENDED)?;
    machine.put_onto_stick(FILE, FILE_TEXT)?;
    machine.put_keys_onto_stick()?;
    cut_short(&machine)?;
    if machine.has_table(MEANT)? {
        return Err(Error::build("a disk whose installation was cut short has a partition table"));
    }
    machine.partition(MEANT)?;
    put_rule(&machine, "")?;
    let took = installs(&machine, "installer", true)?;
    machine.has_own_identifiers()?;
    put_rule(&machine, UNATTENDED)?;
    leaves_a_node_alone(&machine)?;
    same(&before[1..], &machine.digests()?[1..], "the other disk was touched")?;
    let text = machine.file_on_data(FILE_ON_DATA)?.unwrap_or_default();
    if !text.contains(FILE_TEXT) {
        return Err(Error::build(format!(
            "DATA does not hold `{FILE_ON_DATA}` as the stick has it"
        ))
        .cause(text));
    }
    let summary = boots_alone(site, &machine)?;
    Ok(Verdict {
        passed: 10,
        said: format!("installed in {took:.1} s; {summary}"),
        ..Verdict::default()
    })
}

/// So does the stick for arm64, unattended.
pub fn a_stick_installs_a_machine_with_arm64(site: &Site) -> Result<Verdict> {
    let machine = Machine::new(site, ARM64)?;
    machine.partition(MEANT)?;
    let before = machine.digests()?;
    put_rule(&machine, UNATTENDED)?;
    machine.put_onto_stick(FILE, FILE_TEXT)?;
    machine.put_keys_onto_stick()?;
    let took = installs(&machine, "installer-arm64", false)?;
    same(&before[1..], &machine.digests()?[1..], "the other disk was touched")?;
    Ok(Verdict { passed: 2, said: format!("installed in {took:.1} s"), ..Verdict::default() })
}

/// How long a stick takes to install a machine, from the first byte to the reboot.
pub fn time(site: &Site) -> Result<Duration> {
    let machine = Machine::new(site, RECIPE)?;
    put_rule(&machine, UNATTENDED)?;
    machine.put_onto_stick(FILE, FILE_TEXT)?;
    machine.put_keys_onto_stick()?;
    Ok(Duration::from_secs_f64(installs(&machine, "bench-install", false)?))
}

fn put_rule(machine: &Machine, more: &str) -> Result<()> {
    machine.put_onto_stick("installer.toml", &format!("{more}{RULE}"))
}

/// The stick says of both disks that they fit, and does nothing. Ctrl-Alt-Del reboots the machine
/// in order.
fn ambiguous(machine: &Machine) -> Result<()> {
    machine.put_onto_stick("installer.toml", AMBIGUOUS)?;
    let mut node = machine.boot(Starts::Menu, "installer-ambiguous")?;
    let said = node.hear(INSTALLER_STOPPED, PATIENCE)?;
    machine.keyboard().press(&["ctrl", "alt", "delete"])?;
    node.hear(REBOOTS, PATIENCE)?;
    node.power_off()?;
    if said.contains("2 disks fit the rule") {
        Ok(())
    } else {
        Err(Error::build("the reason is another one").cause(said))
    }
}

fn same(before: &[String], after: &[String], else_what: &str) -> Result<()> {
    if before == after { Ok(()) } else { Err(Error::build(else_what)) }
}

/// The power goes when a part is written.
fn cut_short(machine: &Machine) -> Result<()> {
    let mut node = machine.boot(Starts::Menu, "installer-cut")?;
    let erases = node.hear(INSTALLER_ERASES, PATIENCE)?;
    if !erases.contains(MEANT) || erases.contains(OTHER) {
        return Err(Error::build("it erases another disk").cause(erases));
    }
    node.hear(A_QUARTER, PATIENCE)?;
    node.power_off()
}

/// It goes to the end, once somebody has typed the word where it asks, and the machine reboots into
/// the disk although the stick is in. Gives the seconds from the first byte to the reboot.
fn installs(machine: &Machine, log: &str, asks: bool) -> Result<f64> {
    let mut node = machine.boot(Starts::Menu, log)?;
    node.hear(INSTALLER_ERASES, PATIENCE)?;
    if asks {
        node.hear(ASKS, PATIENCE)?;
        machine.keyboard().type_line("no")?;
        node.hear(ASKS, PATIENCE)?;
        machine.keyboard().type_line(WORD)?;
    }
    node.hear("installer: begins in 1 s", PATIENCE)?;
    let started = Instant::now();
    node.hear(INSTALLER_DONE, PATIENCE)?;
    let took = started.elapsed().as_secs_f64();
    boots_the_disk(&mut node)?;
    node.hear(SLOT_GOOD, PATIENCE)?;
    node.power_off()?;
    Ok(took)
}

/// On firmware that starts the stick and nothing else, the stick has it boot the node that is
/// there; and when it starts the stick all the same, it says so and stops.
fn leaves_a_node_alone(machine: &Machine) -> Result<()> {
    machine.forget()?;
    let before = machine.digests()?;
    let mut node = machine.boot(Starts::FirstDisk, "installer-again")?;
    let done = node.hear(INSTALLER_DONE, PATIENCE)?;
    let stopped = node.hear(INSTALLER_STOPPED, PATIENCE)?;
    node.power_off()?;
    if !done.contains("held a node already")
        || !stopped.contains("has started the stick: take that out")
    {
        return Err(Error::build("the stick has not left the node alone")
            .cause(format!("{done}\n{stopped}")));
    }
    same(&before, &machine.digests()?, "a node that was there has been touched")
}

/// The machine reboots, with Secure Boot enforced, into a node whose DATA is a partition of an NVMe
/// disk.
fn boots_the_disk(node: &mut Node) -> Result<()> {
    node.hear(SLOTBOOT_STARTS, PATIENCE)?;
    node.hear(SECURE, PATIENCE)?;
    let data = node.hear("init: data: ", PATIENCE)?;
    if data.contains("/dev/nvme") {
        Ok(())
    } else {
        Err(Error::build("the machine has not rebooted into its disk").cause(data))
    }
}

/// The disk boots by itself, on another machine's firmware that starts only what is signed.
fn boots_alone(site: &Site, machine: &Machine) -> Result<String> {
    let name = "installer-alone";
    let alone = RunOptions {
        secure_boot: SecureBoot::enforced(Keys::named(&site.project(), DEV)?.trust()?),
        until: Until::Ready,
        timeout: Some(PATIENCE),
        ..machine.options(Bus::Nvme, machine.disk(MEANT), name)?
    };
    let boot = run(site.report, &alone)?;
    let said =
        fs::read_to_string(site.log(name)).or_build(|| "cannot read the console".to_owned())?;
    if said.contains(SECURE) {
        Ok(boot.summary())
    } else {
        Err(Error::build("the firmware does not enforce Secure Boot"))
    }
}
