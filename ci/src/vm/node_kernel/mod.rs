//! Tests on the kernel of the node, for what the kernel of a build host often lacks. Their machine
//! boots the node's UKI with another initramfs, which has the tests and Debian's tools for them.

mod userland;

use super::boot_disk;
use super::machine::Machine;
use crate::cargo::{self, NODE_KERNEL_TESTS};
use crate::check::Outcome;
use crate::image::RECIPE;
use crate::site::{Ran, Site};
use osbuild::error::{Context, Result};
use osbuild::produce::out::UKI;
use osbuild_formats::cpio::{self, Entry};
use osbuild_formats::pe;
use osbuild_formats::uki::{self, Parts};
use std::fs;
use userland::Userland;

/// The log of the machine.
const LOG: &str = "node-kernel";

/// Debian's programs that the tests start.
const TOOLS: [&str; 8] =
    ["busybox", "dnsmasq", "ip", "kill", "nsenter", "setpriv", "unshare", "wg"];

/// Start of the last line; the highest exit code of the tests follows.
const END: &str = "node kernel: exit code ";

/// The links that the node makes of its settings are those that `ip` shows.
pub fn links_are_what_ip_shows(site: &Site) -> Result<Outcome> {
    let initramfs = initramfs(site)?;
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let image = folder.path().join("disk.raw");
    boot_disk::write(&image, &[boot_disk::started(&uki(site, &initramfs)?)], None)?;
    let mut machine = Machine::new(site, image, LOG).memory(1024).without_reboot().start()?;
    let last = machine.wait_for(END)?;
    let code = last.split(END).nth(1).and_then(|code| code.trim().parse().ok());
    machine.power_off()?;
    let log = site.log(LOG);
    let output =
        fs::read_to_string(&log).or_build(|| format!("cannot read `{}`", log.display()))?;
    Ok(cargo::outcome(&Ran { code, output, log }))
}

/// The node's UKI with another initramfs.
fn uki(site: &Site, initramfs: &[u8]) -> Result<Vec<u8>> {
    let path = site.project().join("out").join(RECIPE).join(UKI);
    let mut node = fs::read(&path).or_build(|| format!("cannot read `{}`", path.display()))?;
    let cannot = || "cannot make the UKI of the tests".to_owned();
    let stub = fs::read(super::echo_uki::STUB).or_build(cannot)?;
    pe::detach(&mut node).or_build(cannot)?;
    let parts = uki::read(&node).or_build(cannot)?;
    uki::build(&stub, &Parts { initramfs, ..parts }).or_build(cannot)
}

/// An initramfs that runs the tests.
fn initramfs(site: &Site) -> Result<Vec<u8>> {
    let mut userland = Userland::new(site);
    for tool in TOOLS {
        userland.add_tool(tool)?;
    }
    let mut commands = Vec::new();
    for tests in &NODE_KERNEL_TESTS {
        let compiled = cargo::compile_for_node_kernel(site, tests)?;
        for program in compiled.programs.iter().chain([&compiled.tests]) {
            userland.add_stripped(program)?;
        }
        commands.push(format!("{} --test-threads 2 {}", compiled.tests.display(), tests.filter));
    }
    for folder in ["/dev", "/proc", "/run", "/sys", "/tmp", "/var/run"] {
        userland.add_folder(folder);
    }
    userland.add_file("/etc/passwd", "root:x:0:0::/:/bin/sh\n");
    userland.add_file("/init", &init(&commands));
    let mut entries = userland.entries();
    entries.push(Entry::char_device("/dev/console", 0o600, 5, 1));
    let written = cpio::write(&entries, Vec::new());
    written.or_build(|| "cannot write the initramfs of the tests".to_owned())
}

/// PID 1. The kernel's own lines would stand in those of the tests.
fn init(commands: &[String]) -> String {
    let run = |command: &String| format!("{command} || code=$?\n");
    format!(
        "#!/bin/busybox sh\n\
         export PATH=/bin\n\
         busybox mount -t devtmpfs devtmpfs /dev\n\
         busybox mount -t proc proc /proc\n\
         busybox mount -t sysfs sysfs /sys\n\
         busybox dmesg -n 1\n\
         ip link set lo up\n\
         code=0\n\
         {}\
         echo \"{END}$code\"\n\
         busybox sleep 3600\n",
        commands.iter().map(run).collect::<String>()
    )
}
