//! The command line `osbuild run`, as a user types it.

use crate::check::Outcome;
use crate::child::ended_in_order;
use crate::image::{ARM64, RECIPE};
use crate::site::{Ran, Site};
use crate::vm::machine::{PROCESSORS, SECURE_BOOT_ON};
use osbuild::engine::stop;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::console::INSECURE;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long the program may take to print an expected line.
const TIMEOUT: Duration = Duration::from_secs(600);

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Under UEFI with Secure Boot enforced the image boots until the kubelet is healthy and every
/// declared pod runs; the DHCP pod has got the node its address.
pub fn boots_to_ready_with_an_address(site: &Site) -> Result<Outcome> {
    boots(site, RECIPE)
}

/// The image for arm64 does the same.
pub fn arm64_boots_to_ready_with_an_address(site: &Site) -> Result<Outcome> {
    boots(site, ARM64)
}

/// The image for EC2 does the same from an NVMe disk, with its console on the serial port.
pub fn aws_amd64_boots_to_ready_with_an_address(site: &Site) -> Result<Outcome> {
    boots(site, "aws-amd64")
}

/// The image for EC2's arm64 instances does the same.
pub fn aws_arm64_boots_to_ready_with_an_address(site: &Site) -> Result<Outcome> {
    boots(site, "aws-arm64")
}

/// `--network ipv6`: the node becomes ready with an address in `fec0::/64`, the prefix that QEMU's
/// router advertises.
pub fn boots_to_ready_with_an_ipv6_address(site: &Site) -> Result<Outcome> {
    let (ran, summary) = ready(site, "boots-ipv6", RECIPE, &["--network", "ipv6"])?;
    match summary.split_once("; ") {
        Some((_, address)) if address.starts_with("fec0::") && address.ends_with("/64 on eth0") => {
            Ok(Outcome::holds(summary))
        }
        _ => Err(ran.failure("the node does not have one address, in the advertised prefix")),
    }
}

/// `--setup-mode`: the node boots, and warns once that the firmware starts any program.
pub fn a_node_in_setup_mode_boots_and_warns(site: &Site) -> Result<Outcome> {
    warns(site, "boots-setup-mode", "--setup-mode")
}

/// `--insecure`: the same on firmware that cannot verify and stays in setup mode.
pub fn a_node_without_secure_boot_boots_and_warns(site: &Site) -> Result<Outcome> {
    warns(site, "boots-insecure", "--insecure")
}

fn warns(site: &Site, log: &str, flag: &str) -> Result<Outcome> {
    let (ran, summary) = ready(site, log, RECIPE, &[flag])?;
    let warning = format!("{INSECURE}setup-mode");
    match ran.output.lines().filter(|line| line.contains(&warning)).count() {
        1 => Ok(Outcome::holds(summary)),
        _ => Err(ran.failure("the node does not warn once that its machine is in setup mode")),
    }
}

fn boots(site: &Site, recipe: &str) -> Result<Outcome> {
    let (ran, summary) = ready(site, &format!("boots-{recipe}"), recipe, &[])?;
    // The kernel's UEFI stub asks the firmware.
    if !ran.output.contains(SECURE_BOOT_ON) {
        return Err(ran.failure("the kernel does not report that Secure Boot is on"));
    }
    // QEMU's user network gives the first machine this address.
    if !summary.contains("10.0.2.15/24") {
        return Err(Error::build("the node has no address from the DHCP pod").cause(summary));
    }
    Ok(Outcome::holds(summary))
}

/// Runs `osbuild run` until the node is ready, and returns the output and the summary in it.
fn ready(site: &Site, log: &str, recipe: &str, flags: &[&str]) -> Result<(Ran, String)> {
    let processors = PROCESSORS.to_string();
    let words =
        ["run", recipe, "--until", "ready", "--timeout", "600", "--cpus", &processors, "--yes"];
    let ran = site.run(log, site.osbuild()?.args(words).args(flags))?;
    if ran.code != Some(0) {
        return Err(ran.failure("the node did not become ready"));
    }
    match ran.output.lines().find(|line| line.starts_with("ready after ")).map(str::to_owned) {
        Some(summary) => Ok((ran, summary)),
        None => Err(ran.failure("`osbuild run` prints no summary")),
    }
}

/// A running `osbuild run`. Dropping it interrupts the program.
pub struct RunCommand {
    child: Child,
    log: PathBuf,
}

impl RunCommand {
    /// Starts `osbuild run RECIPE` with more flags. Its output is written to the log `name`.
    pub fn start(site: &Site, name: &str, recipe: &str, flags: &[&str]) -> Result<Self> {
        RunCommand::start_in(site, &site.project(), name, recipe, PROCESSORS, flags)
    }

    /// Does the same in another copy of the checkout, with this number of processors. A disk that
    /// is kept there is not one of the user.
    pub fn start_in(
        site: &Site,
        project: &Path,
        name: &str,
        recipe: &str,
        processors: u32,
        flags: &[&str],
    ) -> Result<Self> {
        let log = site.log(name);
        let cannot = || format!("cannot write `{}`", log.display());
        let stdout = File::create(&log).or_build(cannot)?;
        let stderr = stdout.try_clone().or_build(cannot)?;
        let mut osbuild = site.osbuild()?;
        osbuild.current_dir(project);
        osbuild.args(["run", recipe, "--cpus", &processors.to_string(), "--yes"]).args(flags);
        // Ctrl-C on a terminal would be the first of two interrupts, and the second one ends it
        // without order. After a second one no code of ours ends it.
        let mut osbuild = ended_in_order(&osbuild);
        osbuild.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
        let child = osbuild.spawn().or_build(|| "cannot start `osbuild`".to_owned())?;
        Ok(RunCommand { child, log })
    }

    /// Waits until a line of the output begins with `words`, and returns the line.
    pub fn wait_for(&mut self, words: &str) -> Result<String> {
        self.wait_at_most(TIMEOUT, words)
    }

    /// Does the same for at most `timeout`.
    pub fn wait_at_most(&mut self, timeout: Duration, words: &str) -> Result<String> {
        let end = Instant::now() + timeout;
        loop {
            stop::check()?;
            let output = self.output()?;
            if let Some(line) = output.lines().find(|line| line.starts_with(words)) {
                return Ok(line.to_owned());
            }
            let ended = self.child.try_wait().or_build(cannot_wait)?;
            if let Some(status) = ended {
                return Err(Error::build(format!(
                    "`osbuild run` ended before `{words}`: {status}"
                ))
                .cause(self.output()?));
            }
            if Instant::now() > end {
                return Err(Error::build(format!("`osbuild run` did not print `{words}`"))
                    .cause(self.output()?));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Interrupts the program as Ctrl-C does, and returns its exit code and its output.
    pub fn interrupt(mut self) -> Result<(Option<i32>, String)> {
        kill_process(Pid::from_child(&self.child), Signal::INT)
            .or_build(|| "cannot interrupt `osbuild run`".to_owned())?;
        let status = self.child.wait().or_build(cannot_wait)?;
        Ok((status.code(), self.output()?))
    }

    fn output(&self) -> Result<String> {
        let bytes =
            fs::read(&self.log).or_build(|| format!("cannot read `{}`", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for RunCommand {
    fn drop(&mut self) {
        // Both fail only if the process is gone already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let _ = self.child.wait();
    }
}

fn cannot_wait() -> String {
    "cannot wait for `osbuild run`".to_owned()
}
