//! `osbuild run`: boots an image under QEMU as a board's machine would, and says when its node is
//! ready or why it does not get there.

use super::boot::Boot;
use super::machine::{
    Accelerator, Disk, Download, Firmware, Forward, Hardware, Network, Reboot, SecureBoot, scratch,
};
use super::node::Node;
use crate::error::{Context, Error, Result};
use crate::plan::{Architecture, Qemu};
use crate::report::Report;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the summary of a ready node waits for an address: to be ready, the node needs no
/// network.
const LATE_ADDRESS: Duration = Duration::from_secs(10);

/// What to boot, on what, and until when.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The disk image, which is only read.
    pub image: PathBuf,
    /// The processor's architecture.
    pub architecture: Architecture,
    /// The board's machine, with the user's wishes put over it.
    pub qemu: Qemu,
    /// Logical sector size of the board's disk in bytes.
    pub sector_size: u32,
    /// Firmware that the user named.
    pub firmware: Option<PathBuf>,
    /// Whether to download firmware when there is none.
    pub download: Download,
    /// Size of the disk in MiB, when it is not that of the image.
    pub disk_size_mib: Option<u64>,
    /// A disk that keeps what the node writes; none throws it away.
    pub keep: Option<PathBuf>,
    /// A file that gets every write to the disk and every flush, as of [`Disk::recorded`].
    pub record: Option<PathBuf>,
    /// Ports of the host that lead to the node.
    pub forwards: Vec<Forward>,
    /// What the machine's network speaks.
    pub network: Network,
    /// The host name that the network's DHCP server gives; none gives none.
    pub hostname: Option<String>,
    /// What the firmware starts.
    pub secure_boot: SecureBoot,
    /// Whether the machine has a hardware watchdog.
    pub watchdog: bool,
    /// More arguments of QEMU.
    pub arguments: Vec<String>,
    /// When to stop.
    pub until: Until,
    /// How long the node may take to get ready; none waits for ever.
    pub timeout: Option<Duration>,
    /// Whether to show the console.
    pub show_console: bool,
    /// The file that gets the console.
    pub log: PathBuf,
    /// A folder of this user and machine, for what is worth keeping between runs.
    pub cache: PathBuf,
}

/// When a run ends well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When the machine is powered off, by the node or the user.
    PowerOff,
    /// When the node is ready.
    Ready,
}

/// Boots, and comes back when the run has ended as `options.until` says.
pub fn run(report: &Report, options: &RunOptions) -> Result<Boot> {
    let mut node = start(report, options)?;
    node.ready(options.timeout)?;
    node.address(LATE_ADDRESS)?;
    let boot = node.boot().clone();
    report.summary(boot.summary());
    match options.until {
        Until::Ready => node.power_off()?,
        Until::PowerOff => node.end()?,
    }
    Ok(boot)
}

/// Powers a node on and comes back at once, for whoever wants to watch it himself.
pub fn start<'a>(report: &'a Report, options: &RunOptions) -> Result<Node<'a>> {
    let image = &options.image;
    if !image.is_file() {
        return Err(Error::build(format!("there is no image `{}`", image.display()))
            .hint("build it with `cargo osbuild build RECIPE`"));
    }
    let logs = options.log.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(logs).or_build(|| format!("cannot make `{}`", logs.display()))?;
    std::fs::create_dir_all(&options.cache)
        .or_build(|| format!("cannot make `{}`", options.cache.display()))?;
    let scratch = scratch(logs)?;
    let hardware = hardware(report, options, scratch.path())?;
    if options.show_console && report.can_ask() {
        report.note("the console follows; Ctrl-A x ends the machine");
    }
    Node::start(report, &hardware, scratch, &options.log, options.show_console)
}

fn hardware(report: &Report, options: &RunOptions, scratch: &Path) -> Result<Hardware> {
    let firmware = Firmware::find(
        options.architecture,
        &options.secure_boot,
        options.firmware.as_deref(),
        &options.download,
    )?;
    if let Some(path) = options.keep.as_ref()
        && Disk::is_of_another(&options.image, path)?
    {
        let (disk, image) = (path.display(), options.image.display());
        report.warning(format!(
            "`{disk}` was made from an earlier build and lacks the changes in `{image}`"
        ));
        report.note(format!("to start over: rm {disk}"));
    }
    let (disk, variables) = match &options.keep {
        Some(path) => (
            Disk::kept(&options.image, path.clone(), options.disk_size_mib)?,
            path.with_extension("variables"),
        ),
        None => (
            Disk::overlay(&options.image, scratch.join("overlay"), options.disk_size_mib)?,
            scratch.join("variables"),
        ),
    };
    let disk = match &options.record {
        Some(record) => disk.recorded(new_file(record)?),
        None => disk,
    };
    let firmware = firmware.with_variables(variables)?;
    if let SecureBoot::Enforced(trust) = &options.secure_boot {
        firmware.enroll(trust)?;
    }
    Ok(Hardware {
        architecture: options.architecture,
        qemu: options.qemu.clone(),
        accelerator: Accelerator::probe(options.architecture, &options.cache, report)?,
        firmware,
        secure_boot: options.secure_boot.verifies(),
        disk,
        sector_size: options.sector_size,
        forwards: options.forwards.clone(),
        network: options.network,
        hostname: options.hostname.clone(),
        watchdog: options.watchdog,
        arguments: options.arguments.clone(),
        reboot: if options.until == Until::Ready { Reboot::PowerOff } else { Reboot::Allow },
    })
}

/// Makes the file anew, with nothing in it.
fn new_file(path: &Path) -> Result<PathBuf> {
    std::fs::File::create(path).or_build(|| format!("cannot write `{}`", path.display()))?;
    Ok(path.to_owned())
}
