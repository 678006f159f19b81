//! Unified kernel images: systemd's UEFI stub with a kernel, an initramfs and a command line as further PE sections (UAPI
//! group's specification "Unified Kernel Image").

use std::fmt;

use osbuild_abi::slot::EPOCH_SECTION;

use crate::{epoch, pe};

const CODE: u32 = 0x0000_0020;
const READ: u32 = 0x4000_0000;

/// What a UKI is made of, besides the stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The text of the node's os-release.
    pub os_release: &'a str,
    /// The kernel's command line: printable ASCII, without a line end.
    pub command_line: &'a str,
    /// The kernel's release, as `uname -r` prints it.
    pub uname: &'a str,
    /// The security epoch. One that has none is of epoch 0.
    pub security_epoch: u32,
    /// The initramfs.
    pub initramfs: &'a [u8],
    /// The kernel: a PE image itself. Read back, it has up to 64 KiB of zeros at its end, which pad the file.
    pub kernel: &'a [u8],
}

/// Why a UKI was not made or not read.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The stub cannot take the sections.
    Stub(pe::Error),
    /// The kernel is no PE image.
    Kernel(pe::Error),
    /// The UKI is no PE image.
    Image(pe::Error),
    /// Stub and kernel are for different machines.
    Machine {
        /// The stub's machine.
        stub: u16,
        /// The kernel's machine.
        kernel: u16,
    },
    /// This section is missing, or would be empty.
    Missing(&'static str),
    /// This section's text is not what a UKI may hold.
    Text(&'static str),
}

/// Makes a UKI from `stub`, which decides what machine it is for.
pub fn build(stub: &[u8], parts: &Parts) -> Result<Vec<u8>, Error> {
    let machine = pe::Image::parse(stub).map_err(Error::Stub)?.machine;
    let kernel = pe::Image::parse(parts.kernel).map_err(Error::Kernel)?;
    if kernel.machine != machine {
        return Err(Error::Machine { stub: machine, kernel: kernel.machine });
    }
    for (name, text) in [(".cmdline", parts.command_line), (".uname", parts.uname)] {
        if !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(Error::Text(name));
        }
    }
    let section = |name, data| pe::NewSection { name, data, virtual_size: 0, characteristics: pe::READ_ONLY_DATA };
    // The kernel is last and takes its whole size in memory, so that the stub can start it where it is loaded.
    let linux =
        pe::NewSection { virtual_size: kernel.size_of_image, characteristics: CODE | READ, ..section(".linux", parts.kernel) };
    let epoch = epoch::text(parts.security_epoch);
    let sections = [
        section(".osrel", parts.os_release.as_bytes()),
        section(".cmdline", parts.command_line.as_bytes()),
        section(".uname", parts.uname.as_bytes()),
        section(EPOCH_SECTION, epoch.as_bytes()),
        section(".initrd", parts.initramfs),
        linux,
    ];
    for name in NAMES {
        if sections.iter().any(|section| section.name == name && section.data.is_empty()) {
            return Err(Error::Missing(name));
        }
    }
    pe::append(stub, &sections).map_err(Error::Stub)
}

/// The sections that every UKI has to have.
const NAMES: [&str; 5] = [".osrel", ".cmdline", ".uname", ".initrd", ".linux"];

/// Reads a UKI that has all five sections.
pub fn read(uki: &[u8]) -> Result<Parts<'_>, Error> {
    let image = pe::Image::parse(uki).map_err(Error::Image)?;
    let [os_release, command_line, uname, initramfs, kernel] =
        NAMES.map(|name| image.section(name).map(pe::Section::data).ok_or(Error::Missing(name)));
    let text = |data, name| std::str::from_utf8(data).map_err(|_| Error::Text(name));
    Ok(Parts {
        os_release: text(os_release?, ".osrel")?,
        command_line: text(command_line?, ".cmdline")?,
        uname: text(uname?, ".uname")?,
        security_epoch: epoch::of(&image).map_err(|epoch::NotANumber| Error::Text(EPOCH_SECTION))?,
        initramfs: initramfs?,
        kernel: kernel?,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stub(_) => write!(f, "the UEFI stub cannot take the sections of a UKI"),
            Self::Kernel(_) => write!(f, "the kernel cannot be started by UEFI"),
            Self::Image(_) => write!(f, "no UKI"),
            Self::Machine { stub, kernel } => {
                write!(f, "the UEFI stub is for machine `{stub:#x}`, the kernel for `{kernel:#x}`")
            }
            Self::Missing(name) => write!(f, "section `{name}` of the UKI is missing or empty"),
            Self::Text(name) => write!(f, "section `{name}` of the UKI has characters that do not belong there"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stub(error) | Self::Kernel(error) | Self::Image(error) => Some(error),
            _ => None,
        }
    }
}
