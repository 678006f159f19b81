//! The components of the host, the seven binaries that come from them, and how they are compiled.

use crate::plan::lock::Pins;
use crate::plan::{LockState, Locked, Unlocked, Version};
use std::fmt;

/// One of the seven files in `/bin`. There is no eighth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BinaryName {
    /// PID 1.
    Init,
    /// The container runtime.
    Containerd,
    /// The parent process of each pod.
    ContainerdShimRuncV2,
    /// The program that starts containers.
    Runc,
    /// The node's agent.
    Kubelet,
    /// The program that the kubelet mounts with.
    Mount,
    /// The program that the kubelet unmounts with.
    Umount,
}

impl BinaryName {
    /// The seven, in the order of every list of them.
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

/// A component of the host with the binaries that it makes, all of them by one compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostComponent<L: LockState = Unlocked> {
    /// How it is compiled.
    pub build: Compile<L>,
    /// Its binaries, in the order of [`BinaryName::ALL`].
    pub binaries: Vec<BinaryName>,
}

/// How a component is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compile<L: LockState = Unlocked> {
    /// From a Go module.
    Go(GoComponent<L>),
    /// From a package of this workspace.
    Cargo {
        /// The component.
        component: String,
        /// The package.
        package: String,
    },
}

/// A component that is compiled from a Go module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoComponent<L: LockState = Unlocked> {
    /// The component.
    pub name: String,
    /// The module's path.
    pub module: String,
    /// The upstream version.
    pub version: Version,
    /// The programs to build, in order of file name.
    pub packages: Vec<GoOutput>,
    /// The test programs to build, in order of file name.
    pub tests: Vec<GoOutput>,
    /// Build tags.
    pub tags: Vec<String>,
    /// Flags for `-ldflags`, in addition to `-s -w -buildid=`.
    pub ldflags: Vec<String>,
    /// The dependencies of its C code; `None` builds with `CGO_ENABLED=0`.
    pub cgo: Option<Cgo>,
    /// Whether the module cannot be a main module, so that it is built from a module that requires
    /// it (Kubernetes and its staging modules).
    pub wrapper: bool,
    /// Folders of its packages that are compiled without their content.
    pub empty_packages: Vec<String>,
    /// The modules that it is compiled from; `()` in a plan that is not locked.
    pub lock: L::GoModules,
}

/// A program that a Go module makes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct GoOutput {
    /// The file's name.
    pub file: String,
    /// The package: `./cmd/containerd`, or a full import path where the module is wrapped.
    pub package: String,
}

/// The dependencies of a Go module's C code, which cgo compiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgo {
    /// Debian packages of the node's architecture with headers and static libraries.
    pub debian: Vec<String>,
}

impl<L: LockState> HostComponent<L> {
    /// The component's name.
    pub fn name(&self) -> &str {
        match &self.build {
            Compile::Go(go) => &go.name,
            Compile::Cargo { component, .. } => component,
        }
    }

    /// Its upstream version; `None` for a component of this workspace.
    pub fn version(&self) -> Option<Version> {
        self.go().map(|go| go.version)
    }

    /// The Go module that it is compiled from; `None` for a component of this workspace.
    pub fn go(&self) -> Option<&GoComponent<L>> {
        match &self.build {
            Compile::Go(go) => Some(go),
            Compile::Cargo { .. } => None,
        }
    }
}

impl<L: LockState> GoComponent<L> {
    /// The module's version as Go writes it, with `v`.
    pub fn go_version(&self) -> String {
        format!("v{}", self.version)
    }
}

impl HostComponent {
    /// The component with its modules from a lock.
    pub(in crate::plan) fn lock(self, pins: &Pins<'_>) -> HostComponent<Locked> {
        let build = match self.build {
            Compile::Go(go) => Compile::Go(go.lock(pins)),
            Compile::Cargo { component, package } => Compile::Cargo { component, package },
        };
        HostComponent { build, binaries: self.binaries }
    }
}

impl GoComponent {
    /// The component with its modules from a lock.
    pub(in crate::plan) fn lock(self, pins: &Pins<'_>) -> GoComponent<Locked> {
        let lock = pins.modules(&self);
        GoComponent {
            name: self.name,
            module: self.module,
            version: self.version,
            packages: self.packages,
            tests: self.tests,
            tags: self.tags,
            ldflags: self.ldflags,
            cgo: self.cgo,
            wrapper: self.wrapper,
            empty_packages: self.empty_packages,
            lock,
        }
    }
}
