//! `osbuild run`: boots an image in QEMU with a board's hardware, and reports when its node is
//! ready or why it failed.

use super::boot::Boot;
use super::files::NodeFiles;
use super::machine::{
    Accelerator, DiskLock, Download, Firmware, Forward, Hardware, Reboot, Scratch, SecureBoot,
    VirtualDisk, place,
};
use super::network::member::Member;
use super::network::{Network, Port, Protocols, ipv4, switch};
use super::running_node::RunningNode;
use crate::error::{Context, Error, Result};
use crate::plan::{Architecture, Qemu};
use crate::report::{Outcome, Report};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for an address after the node is ready, as a node can be ready without a
/// network.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The disk image, which is only read.
    pub image: PathBuf,
    /// The processor's architecture.
    pub architecture: Architecture,
    /// The board's machine, with the user's overrides.
    pub qemu: Qemu,
    /// Logical sector size of the board's disk in bytes.
    pub sector_size: u32,
    /// Firmware that the user named.
    pub firmware: Option<PathBuf>,
    /// Whether to download firmware if none is installed.
    pub download: Download,
    /// Size of the disk in MiB, if it differs from that of the image.
    pub disk_size_mib: Option<u64>,
    /// The file of a disk that keeps the node's writes; `None` discards them.
    pub keep: Option<PathBuf>,
    /// A file that records every write and flush of the disk: see [`VirtualDisk::recorded`].
    pub record: Option<PathBuf>,
    /// Forwarded ports.
    pub forwards: Vec<Forward>,
    /// The files to place on DATA before the boot.
    pub files: NodeFiles,
    /// The network.
    pub network: Network,
    /// The name of the node on this host, which a shared network requires.
    pub name: Option<String>,
    /// The host name that the network's DHCP server sends, if it is not `name`.
    pub hostname: Option<String>,
    /// The Secure Boot mode.
    pub secure_boot: SecureBoot,
    /// Whether the machine has a hardware watchdog.
    pub watchdog: bool,
    /// More arguments of QEMU.
    pub arguments: Vec<String>,
    /// The text to print on stdout once the node is Ready in its cluster.
    pub announcement: Option<String>,
    /// When to stop.
    pub until: Until,
    /// The timeout for the node to be ready, if any.
    pub timeout: Option<Duration>,
    /// Whether to show the console.
    pub show_console: bool,
    /// The log file of the console.
    pub log: PathBuf,
    /// A folder of this user and machine that keeps the accelerator's probe between runs, and has
    /// the sockets of shared networks.
    pub cache: PathBuf,
}

/// When a run succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When the machine is powered off, by the node or the user.
    PowerOff,
    /// When the node is ready.
    Ready,
}

/// Boots an image, and returns at the event `options.until`.
pub fn run(report: &Report, options: &RunOptions) -> Result<Boot> {
    let mut node = start(report, options)?;
    node.announce(options.announcement.clone());
    node.ready(options.timeout)?;
    node.address(ADDRESS_TIMEOUT)?;
    let boot = node.boot().clone();
    report.summary(boot.summary());
    match options.until {
        Until::Ready => node.power_off()?,
        Until::PowerOff => node.end()?,
    }
    Ok(boot)
}

/// Powers a node on and returns at once. The caller waits for its events.
pub fn start<'a>(report: &'a Report, options: &RunOptions) -> Result<RunningNode<'a>> {
    let image = &options.image;
    if !image.is_file() {
        return Err(Error::build(format!("there is no image `{}`", image.display()))
            .hint("build it with `cargo osbuild build RECIPE`"));
    }
    let logs = options.log.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(logs).or_build(|| format!("cannot make `{}`", logs.display()))?;
    std::fs::create_dir_all(&options.cache)
        .or_build(|| format!("cannot make `{}`", options.cache.display()))?;
    let scratch = Scratch::near(logs)?;
    let hardware = hardware(report, options, scratch.path())?;
    if options.show_console && report.can_ask() {
        report.note("the console follows; Ctrl-A x ends the machine");
    }
    RunningNode::start(report, &hardware, scratch, &options.log, options.show_console)
}

fn hardware(report: &Report, options: &RunOptions, scratch: &Path) -> Result<Hardware> {
    let firmware = Firmware::find(
        options.architecture,
        &options.secure_boot,
        options.firmware.as_deref(),
        &options.download,
    )?;
    let (disk, lock) = disk(report, options, scratch)?;
    let disk = match &options.record {
        Some(record) => disk.recorded(new_file(record)?),
        None => disk,
    };
    let variables = match &options.keep {
        Some(path) => path.with_extension("variables"),
        None => scratch.join("variables"),
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
        lock,
        sector_size: options.sector_size,
        forwards: options.forwards.clone(),
        protocols: options.network.protocols,
        port: port(report, options)?,
        hostname: options.hostname.clone().or_else(|| options.name.clone()),
        watchdog: options.watchdog,
        arguments: options.arguments.clone(),
        reboot: if options.until == Until::Ready { Reboot::PowerOff } else { Reboot::Allow },
    })
}

/// Makes the disk, with the user's files. A kept disk is locked.
fn disk(
    report: &Report,
    options: &RunOptions,
    scratch: &Path,
) -> Result<(VirtualDisk, Option<Arc<DiskLock>>)> {
    let (image, size, files) = (&options.image, options.disk_size_mib, &options.files);
    let (disk, locked) = match &options.keep {
        Some(path) => {
            if VirtualDisk::is_outdated(image, path)? {
                let disk = path.display();
                report.warning(format!(
                    "`{disk}` was made from an earlier build and lacks the changes in `{}`",
                    image.display()
                ));
                report.note(format!("to start over: rm {disk}"));
            }
            let (disk, lock) = VirtualDisk::kept(image, path.clone(), size)?;
            (disk, Some(lock))
        }
        None if files.files.is_empty() => {
            (VirtualDisk::overlay(image, scratch.join("overlay"), size)?, None)
        }
        None => (VirtualDisk::copied(image, scratch.join("disk"), size)?, None),
    };
    if !files.files.is_empty() {
        let step = report.step("files");
        place(disk.path(), options.sector_size, files, scratch)?;
        let count = files.files.len();
        let product = format!("{count} file{} on DATA", if count == 1 { "" } else { "s" });
        step.done(&product, Some(files.size()), Outcome::Ran);
    }
    Ok((disk, locked))
}

/// Joins the shared network, if there is one.
fn port(report: &Report, options: &RunOptions) -> Result<Option<Port>> {
    let Some(network) = &options.network.shared else { return Ok(None) };
    let name = options.name.as_deref().ok_or_else(|| nameless(network))?;
    let Some(folder) = options.network.folder(&options.cache) else { return Ok(None) };
    let member = Member::join(&folder, name, options.network.protocols)?;
    let address = match options.network.protocols {
        Protocols::Ipv6 => String::new(),
        Protocols::Both | Protocols::Ipv4 => format!(" as {}", ipv4(member.number)),
    };
    report.note(format!("`{name}` is on the network `{network}`{address}, {}", member.describe()));
    switch::connect(member)
        .map(Some)
        .or_build(|| format!("cannot connect the machine to the network `{network}`"))
}

/// The error for a node without a name on a shared network.
pub fn nameless(network: &str) -> Error {
    Error::usage(format!("a node on the network `{network}`, which others share, needs a name"))
        .hint("name each node: `--name a`, `--name b`")
}

/// Makes an empty file.
fn new_file(path: &Path) -> Result<PathBuf> {
    std::fs::File::create(path).or_build(|| format!("cannot write `{}`", path.display()))?;
    Ok(path.to_owned())
}
