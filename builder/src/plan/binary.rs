//! The seven host binaries and how each is compiled.

use std::fmt;

/// One of the seven files in `/bin`. There is no eighth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BinaryName {
    /// PID 1.
    Init,
    /// The container runtime.
    Containerd,
    /// The process above each pod.
    ContainerdShimRuncV2,
    /// What starts containers.
    Runc,
    /// The node's agent.
    Kubelet,
    /// The kubelet executes it.
    Mount,
    /// The kubelet executes it.
    Umount,
}

impl BinaryName {
    /// The seven, in the order in which everything lists them.
    pub const ALL: [BinaryName; 7] = [
        BinaryName::Init,
        BinaryName::Containerd,
        BinaryName::ContainerdShimRuncV2,
        BinaryName::Runc,
        BinaryName::Kubelet,
        BinaryName::Mount,
        BinaryName::Umount,
    ];

    /// The file's name in `/bin`, which is also the key in a recipe's `[binaries]`.
    pub const fn file_name(self) -> &'static str {
        match self {
            BinaryName::Init => "init",
            BinaryName::Containerd => "containerd",
            BinaryName::ContainerdShimRuncV2 => "containerd-shim-runc-v2",
            BinaryName::Runc => "runc",
            BinaryName::Kubelet => "kubelet",
            BinaryName::Mount => "mount",
            BinaryName::Umount => "umount",
        }
    }
}

impl fmt::Display for BinaryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_name())
    }
}

/// One host binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Which of the seven.
    pub name: BinaryName,
    /// The component that it comes from.
    pub component: String,
    /// Its upstream version without `v`; none for a program of this workspace.
    pub version: Option<String>,
    /// How it is compiled. Two binaries with equal values come from one compilation.
    pub build: Compile,
}

/// How a component is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compile {
    /// From a Go module.
    Go(GoBuild),
    /// From a package of this workspace.
    Cargo {
        /// The package.
        package: String,
        /// The program.
        bin: String,
    },
}

/// How the programs of a Go module are compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoBuild {
    /// The module's path.
    pub module: String,
    /// The module's version, with `v`.
    pub version: String,
    /// The programs to build, in order of file name.
    pub packages: Vec<GoOutput>,
    /// Build tags.
    pub tags: Vec<String>,
    /// What goes into `-ldflags` besides `-s -w -buildid=`.
    pub ldflags: Vec<String>,
    /// What cgo needs; none builds with `CGO_ENABLED=0`.
    pub cgo: Option<Cgo>,
    /// Whether the module cannot be a main module, so that a module around it is needed (Kubernetes
    /// and its staging modules).
    pub wrapper: bool,
}

/// A program that a Go module makes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct GoOutput {
    /// The file's name.
    pub file: String,
    /// The package: `./cmd/containerd`, or a full import path where the module is wrapped.
    pub package: String,
}

/// What cgo needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgo {
    /// Debian packages of the node's architecture with headers and static libraries.
    pub debian: Vec<String>,
}
