//! A virtual machine that emulates a board: its hardware, and the QEMU process that runs it. Only
//! this module starts QEMU and `qemu-img`.

mod accelerator;
mod arguments;
mod data;
mod firmware;
mod kvm;
mod running;
mod scratch;
mod virtual_disk;

pub use accelerator::Accelerator;
pub use arguments::Forward;
pub use data::place;
pub use firmware::{Download, Firmware, SecureBoot};
pub use running::{ConsoleInput, Machine};
pub use scratch::Scratch;
pub use virtual_disk::{DiskLock, VirtualDisk};

use crate::error::{Context, Error, Result};
use crate::plan::{Architecture, Qemu};
use crate::ship::vm::network::{Port, Protocols};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

/// The hardware of a virtual machine.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// The processor's architecture.
    pub architecture: Architecture,
    /// The board's machine, processor and memory.
    pub qemu: Qemu,
    /// The accelerator.
    pub accelerator: Accelerator,
    /// The firmware.
    pub firmware: Firmware,
    /// Whether the firmware has Secure Boot, with protected variables.
    pub secure_boot: bool,
    /// The disk.
    pub disk: VirtualDisk,
    /// The lock of a kept disk, which the machine holds while it runs.
    pub lock: Option<Arc<DiskLock>>,
    /// Logical sector size of the disk in bytes.
    pub sector_size: u32,
    /// Forwarded ports.
    pub forwards: Vec<Forward>,
    /// The protocols of its network.
    pub protocols: Protocols,
    /// Its connections to a shared network, if any.
    pub port: Option<Port>,
    /// The host name that the network's DHCP server sends, if any.
    pub hostname: Option<String>,
    /// Whether it has a hardware watchdog, which resets it.
    pub watchdog: bool,
    /// More arguments of QEMU.
    pub arguments: Vec<String>,
    /// The reaction to a reboot of the node.
    pub reboot: Reboot,
}

/// The reaction of a virtual machine to a reboot of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reboot {
    /// Allow the reboot.
    Allow,
    /// Power off, so that a failure of the first boot is noticed.
    PowerOff,
}

/// QEMU's program for a machine of this architecture.
pub fn program(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Amd64 => "qemu-system-x86_64",
        Architecture::Arm64 => "qemu-system-aarch64",
    }
}

/// The Debian package with [`program`].
pub fn package(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Amd64 => "qemu-system-x86",
        Architecture::Arm64 => "qemu-system-arm",
    }
}

/// Runs a tool. If it fails, the error has its stderr.
fn tool(program: &str, package: &str, arguments: &[String]) -> Result<Output> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| not_started(program, package, &error))?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::build(format!("`{program}` failed: {}", output.status)).cause(stderr))
}

fn not_started(program: &str, package: &str, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::build(format!("`{program}` is not installed"))
            .hint(format!("apt-get install {package}")),
        _ => Error::build(format!("cannot start `{program}`")).cause(error),
    }
}

/// `path` as text for QEMU's options.
fn text(path: &std::path::Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::build(format!("the path `{}` is not UTF-8", path.display())))
}

/// The absolute form of `path`, which need not exist.
fn absolute(path: &std::path::Path) -> Result<PathBuf> {
    std::path::absolute(path).or_build(|| format!("cannot make `{}` absolute", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = tool("no-such-tool", "no-such-package", &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "error: `no-such-tool` is not installed\nhint: apt-get install no-such-package"
        );
    }

    #[test]
    fn a_tool_that_fails_is_quoted() {
        let error =
            tool("qemu-img", "qemu-utils", &["no-such-verb".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`qemu-img` failed") && error.contains("no-such-verb"), "{error}");
    }
}
