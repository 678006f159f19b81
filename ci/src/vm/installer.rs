//! A stick that installs a machine: one stick, a disk that its rule means, and another disk that nobody may touch. mtools edit the stick as any
//! computer would; `sgdisk`, `sfdisk` and `debugfs` look at what it leaves.

mod machine;

use super::machine::options;
use crate::check::Verdict;
use crate::site::Site;
use machine::{MEANT, Machine, OTHER};
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Bus, Qemu};
use osbuild::ship::keys::{DEV, Keys};
use osbuild::ship::node::Node;
use osbuild::ship::run::{RunOptions, Until, run};
use osbuild_abi::console::{INSTALLER_DONE, INSTALLER_ERASES, INSTALLER_STOPPED, SLOT_GOOD, SLOTBOOT_STARTS};
use std::fs;
use std::time::{Duration, Instant};

/// The recipe of the stick.
const RECIPE: &str = "usb-installer-amd64";

/// How long what is waited for may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A rule that fits both disks, and one that means the right one of them.
const AMBIGUOUS: &str = "unattended = true\n\n[disk]\nbus = \"nvme\"\n";

/// What the installer says when a quarter is written, by which the power is cut.
const A_QUARTER: &str = " written";

/// What a kernel says that the firmware has verified, and one on a machine in setup mode.
const SECURE: &str = "UEFI Secure Boot is enabled";

/// A file that the stick names, and where on the node it belongs.
const FILE: (&str, &str) = ("99-own.conf", "/etc/kubernetes/kubelet.conf.d/99-own.conf");
const FILE_ON_DATA: &str = "/kubernetes/kubelet.conf.d/99-own.conf";
const FILE_TEXT: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 42\n";

/// A rule that fits two disks touches neither. One that fits one installs it, also when the power was cut in the midst, and gives the firmware, which
/// is in setup mode, the stick's keys; the machine reboots into the disk while the stick is in, with Secure Boot enforced, and the stick leaves it alone
/// from then on. The disk boots without the stick, too. The other disk stays as it was.
pub fn a_stick_installs_a_machine(site: &Site) -> Result<Verdict> {
    site.finish("installer-build", site.osbuild()?.args(["build", RECIPE, "--yes"]))?;
    let machine = Machine::new(site, &site.project().join("out").join(RECIPE).join("image.raw"))?;
    let before = machine.digests()?;
    ambiguous(site, &machine)?;
    same(&before, &machine.digests()?, "a disk was touched although the rule fits two")?;
    cut_short(site, &machine)?;
    if machine.has_table(MEANT)? {
        return Err(Error::build("a disk whose installation was cut short has a partition table"));
    }
    let took = installs(site, &machine)?;
    leaves_a_node_alone(site, &machine)?;
    same(&before[1..], &machine.digests()?[1..], "the other disk was touched")?;
    machine.has_own_identifiers()?;
    if machine.file_on_data(FILE_ON_DATA)? != FILE_TEXT {
        return Err(Error::build(format!("DATA does not hold `{FILE_ON_DATA}` as the stick has it")));
    }
    let summary = boots_alone(site, &machine)?;
    Ok(Verdict { passed: 7, said: format!("installed in {took:.1} s; {summary}"), ..Verdict::default() })
}

/// The stick says of both disks that they fit, and does nothing.
fn ambiguous(site: &Site, machine: &Machine) -> Result<()> {
    machine.put_onto_stick("installer.toml", AMBIGUOUS)?;
    let mut node = machine.boot(site, "installer-ambiguous")?;
    let said = node.hear(INSTALLER_STOPPED, PATIENCE)?;
    node.power_off()?;
    if said.contains("2 disks fit the rule") { Ok(()) } else { Err(Error::build("the reason is another one").cause(said)) }
}

fn same(before: &[String], after: &[String], else_what: &str) -> Result<()> {
    if before == after { Ok(()) } else { Err(Error::build(else_what)) }
}

/// The power goes when a part is written.
fn cut_short(site: &Site, machine: &Machine) -> Result<()> {
    let rule = format!(
        "unattended = true\ncountdown-s = 3\nenroll-keys = true\n\n[disk]\nbus = \"nvme\"\nserial = \"{MEANT}\"\n\n[files]\n\"{}\" = \"{}\"\n",
        FILE.1, FILE.0
    );
    machine.put_onto_stick("installer.toml", &rule)?;
    machine.put_onto_stick(FILE.0, FILE_TEXT)?;
    machine.put_keys_onto_stick()?;
    let mut node = machine.boot(site, "installer-cut")?;
    let erases = node.hear(INSTALLER_ERASES, PATIENCE)?;
    if !erases.contains(MEANT) || erases.contains(OTHER) {
        return Err(Error::build("it erases another disk").cause(erases));
    }
    node.hear(A_QUARTER, PATIENCE)?;
    node.power_off()
}

/// The second try goes to the end, and the machine reboots into the disk although the stick is in. Gives the seconds from the first byte to the reboot.
fn installs(site: &Site, machine: &Machine) -> Result<f64> {
    let mut node = machine.boot(site, "installer")?;
    node.hear(INSTALLER_ERASES, PATIENCE)?;
    let started = Instant::now();
    node.hear(INSTALLER_DONE, PATIENCE)?;
    let took = started.elapsed().as_secs_f64();
    boots_the_disk(&mut node)?;
    node.hear(SLOT_GOOD, PATIENCE)?;
    node.power_off()?;
    Ok(took)
}

/// The stick is still in, and starts under Secure Boot by now: it has the machine boot its node.
fn leaves_a_node_alone(site: &Site, machine: &Machine) -> Result<()> {
    let mut node = machine.boot(site, "installer-again")?;
    node.hear(SECURE, PATIENCE)?;
    let done = node.hear(INSTALLER_DONE, PATIENCE)?;
    if !done.contains("held a node already") {
        return Err(Error::build("the stick has not left the node alone").cause(done));
    }
    boots_the_disk(&mut node)?;
    node.power_off()
}

/// The machine reboots, with Secure Boot enforced, into a node whose DATA is a partition of an NVMe disk.
fn boots_the_disk(node: &mut Node) -> Result<()> {
    node.hear(SLOTBOOT_STARTS, PATIENCE)?;
    node.hear(SECURE, PATIENCE)?;
    let data = node.hear("init: data: /dev/", PATIENCE)?;
    if data.contains("/dev/nvme") { Ok(()) } else { Err(Error::build("the machine has not rebooted into its disk").cause(data)) }
}

/// The disk boots by itself, on another machine's firmware that starts only what is signed.
fn boots_alone(site: &Site, machine: &Machine) -> Result<String> {
    let name = "installer-alone";
    let machine = options(site, machine.disk(MEANT), name);
    let alone = RunOptions {
        qemu: Qemu { bus: Bus::Nvme, ..machine.qemu },
        trust: Some(Keys::named(&site.project(), DEV)?.trust()?),
        until: Until::Ready,
        timeout: Some(PATIENCE),
        ..machine
    };
    let boot = run(site.report, &alone)?;
    let said = fs::read_to_string(site.log(name)).or_build(|| "cannot read the console".to_owned())?;
    if said.contains(SECURE) { Ok(boot.summary()) } else { Err(Error::build("the firmware does not enforce Secure Boot")) }
}
