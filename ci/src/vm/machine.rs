//! The machines that checks boot: for most QEMU's q35 with what a node asks for, for others what
//! stands in for a board.

use crate::image::ARM64;
use crate::site::Site;
use osbuild::checkout::Checkout;
use osbuild::error::{Error, Result};
use osbuild::plan::{Architecture, Bus, Date, Qemu, Strictness, resolve};
use osbuild::ship::vm::machine::{Download, Network, SecureBoot};
use osbuild::ship::vm::run::{RunOptions, Until};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// This machine, as one that QEMU runs sees it.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// How many processors a machine has. Emulated ones wait for each other's locks, so two machines of
/// one processor beside each other get more done than two of two.
pub const PROCESSORS: u32 = 1;

/// A machine that boots from `image`, which stays as it is, until it powers itself off, on firmware
/// that starts everything. Its console goes to the log of this name.
pub fn options(site: &Site, image: PathBuf, log: &str) -> RunOptions {
    RunOptions {
        image,
        architecture: Architecture::Amd64,
        qemu: Qemu {
            machine: "q35".into(),
            cpu: "max".into(),
            memory_mib: 2048,
            cpus: PROCESSORS,
            bus: Bus::VirtioBlk,
        },
        sector_size: 512,
        firmware: None,
        download: Download::Refused,
        disk_size_mib: None,
        keep: None,
        record: None,
        forwards: Vec::new(),
        network: Network::Both,
        hostname: None,
        secure_boot: SecureBoot::Off,
        watchdog: false,
        arguments: Vec::new(),
        until: Until::PowerOff,
        timeout: None,
        show_console: false,
        log: site.log(log),
        cache: site.machine.clone(),
    }
}

/// The same for either architecture.
pub fn options_for(
    site: &Site,
    architecture: Architecture,
    image: PathBuf,
    log: &str,
) -> Result<RunOptions> {
    match architecture {
        Architecture::Amd64 => Ok(options(site, image, log)),
        Architecture::Arm64 => options_of(site, ARM64, image, log),
    }
}

/// The same, but for the machine itself, which is that of a recipe's board.
pub fn options_of(site: &Site, recipe: &str, image: PathBuf, log: &str) -> Result<RunOptions> {
    let project = Checkout { root: site.project() }.read()?;
    // The date only decides about warnings.
    let plan = resolve(&project, recipe, Date::from_unix(0), Strictness::Build)?;
    let qemu =
        plan.board.qemu.clone().ok_or_else(|| {
            Error::build(format!("QEMU cannot stand in for `{}`", plan.board.name))
        })?;
    Ok(RunOptions {
        architecture: plan.architecture,
        qemu: Qemu { cpus: PROCESSORS, ..qemu },
        sector_size: plan.board.sector_size,
        ..options(site, image, log)
    })
}
