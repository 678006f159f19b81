//! The node boots.

use crate::check::Verdict;
use crate::image::{ARM64, RECIPE};
use crate::site::{Ran, Site};
use crate::vm::machine::PROCESSORS;
use osbuild::error::{Error, Result};
use osbuild_abi::console::INSECURE;

/// What the kernel says when the firmware verified it.
const SECURE: &str = "UEFI Secure Boot is enabled";

/// Under UEFI with Secure Boot enforced the image boots until the kubelet is healthy and every
/// declared pod runs; the DHCP pod has got the node its address.
pub fn boots_to_ready_with_an_address(site: &Site) -> Result<Verdict> {
    boots(site, RECIPE)
}

/// So does the image for arm64.
pub fn arm64_boots_to_ready_with_an_address(site: &Site) -> Result<Verdict> {
    boots(site, ARM64)
}

/// So does the image for EC2, from an NVMe disk, with its words on the serial console.
pub fn aws_amd64_boots_to_ready_with_an_address(site: &Site) -> Result<Verdict> {
    boots(site, "aws-amd64")
}

/// So does the one for EC2's machines with arm64.
pub fn aws_arm64_boots_to_ready_with_an_address(site: &Site) -> Result<Verdict> {
    boots(site, "aws-arm64")
}

/// In a network with IPv6 alone it gets ready as well, with an address in the prefix that QEMU's
/// router advertises, `fec0::/64`.
pub fn boots_to_ready_with_an_address_of_ipv6_alone(site: &Site) -> Result<Verdict> {
    let (ran, summary) = ready(site, "boots-ipv6", RECIPE, &["--network", "ipv6"])?;
    match summary.split_once("; ") {
        Some((_, address)) if address.starts_with("fec0::") && address.ends_with("/64 on eth0") => {
            Ok(Verdict::holds(summary))
        }
        _ => Err(ran.failure("the node does not have one address, in the advertised prefix")),
    }
}

/// On a machine in setup mode it boots as well, and the node says once that anything would.
pub fn a_machine_in_setup_mode_boots_and_says_so(site: &Site) -> Result<Verdict> {
    warns(site, "boots-setup-mode", "--setup-mode")
}

/// So it does on firmware that can verify nothing, which never leaves that mode.
pub fn a_machine_without_secure_boot_boots_and_says_so(site: &Site) -> Result<Verdict> {
    warns(site, "boots-insecure", "--insecure")
}

fn warns(site: &Site, log: &str, flag: &str) -> Result<Verdict> {
    let (ran, summary) = ready(site, log, RECIPE, &[flag])?;
    let warning = format!("{INSECURE}setup-mode");
    match ran.said.lines().filter(|line| line.contains(&warning)).count() {
        1 => Ok(Verdict::holds(summary)),
        _ => Err(ran.failure("the node does not say once that its machine is in setup mode")),
    }
}

fn boots(site: &Site, recipe: &str) -> Result<Verdict> {
    let (ran, summary) = ready(site, &format!("boots-{recipe}"), recipe, &[])?;
    // The kernel's UEFI stub asks the firmware.
    if !ran.said.contains(SECURE) {
        return Err(ran.failure("the kernel does not say that Secure Boot is on"));
    }
    // QEMU's user network gives the first machine this address.
    if !summary.contains("10.0.2.15/24") {
        return Err(Error::build("the node has no address from the DHCP pod").cause(summary));
    }
    Ok(Verdict::holds(summary))
}

/// `osbuild run` until the node is ready: all that it said, and its summary.
fn ready(site: &Site, log: &str, recipe: &str, more: &[&str]) -> Result<(Ran, String)> {
    let processors = PROCESSORS.to_string();
    let words =
        ["run", recipe, "--until", "ready", "--timeout", "300", "--cpus", &processors, "--yes"];
    let ran = site.run(log, site.osbuild()?.args(words).args(more))?;
    if ran.code != Some(0) {
        return Err(ran.failure("the node did not get ready"));
    }
    match ran.said.lines().find(|line| line.starts_with("ready after ")).map(str::to_owned) {
        Some(summary) => Ok((ran, summary)),
        None => Err(ran.failure("`osbuild run` has no summary")),
    }
}
