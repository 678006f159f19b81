//! Processor architectures, and the name that each tool has for them.

use std::fmt;

/// The architecture of a node, or of the build machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl Architecture {
    /// Both.
    pub const ALL: [Architecture; 2] = [Architecture::Amd64, Architecture::Arm64];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 2] = ["amd64", "arm64"];

    /// The one of this name, as recipes and boards write it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|architecture| architecture.name() == name)
    }

    /// The name in recipes, boards and messages.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Debian's name.
    pub fn debian(self) -> &'static str {
        self.name()
    }

    /// Go's name, the value of `GOARCH`.
    pub fn go(self) -> &'static str {
        self.name()
    }

    /// The Rust target of static programs.
    pub fn rust_musl(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64-unknown-linux-musl",
            Architecture::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// The Rust target of UEFI programs.
    pub fn rust_uefi(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64-unknown-uefi",
            Architecture::Arm64 => "aarch64-unknown-uefi",
        }
    }

    /// The kernel's name, the value of `ARCH`.
    pub fn kernel(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86",
            Architecture::Arm64 => "arm64",
        }
    }

    /// The name of such a machine in Linux (uname(2)), and in Rust.
    pub fn machine(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64",
            Architecture::Arm64 => "aarch64",
        }
    }

    /// The prefix of GNU tools and the name of Debian's library folder.
    pub fn gnu(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64-linux-gnu",
            Architecture::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// UEFI's name in file names: `BOOTX64.EFI`, `linuxx64.efi.stub` (UEFI 2.10, 3.5.1.1), in lower
    /// case.
    pub fn efi(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x64",
            Architecture::Arm64 => "aa64",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
