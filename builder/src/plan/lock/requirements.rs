//! Everything that a lock must pin.

use super::DebianRelease;
use crate::plan::{Architecture, GoComponent, GoOutput, LockState};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The inputs that a plan needs from outside, in the order of the lock. The names of the fields are
/// part of [`Requirements::digest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requirements {
    /// The package with the kernel's source; `None` for programs.
    pub kernel_source: Option<DebianRequirement>,
    /// The package with systemd's UEFI stub, of the node's architecture; `None` for programs.
    pub stub: Option<DebianRequirement>,
    /// Packages of the build machine's architecture that make up the sandbox's root, in order of
    /// name. The lock adds their dependencies.
    pub sandbox: Vec<DebianRequirement>,
    /// Packages of the build machine's architecture that start a step on a worker, in order of
    /// name. The lock adds their dependencies. No product depends on them, so a lock without them
    /// is up to date.
    #[serde(skip)]
    pub launcher: Vec<DebianRequirement>,
    /// The program that writes the kernel's types, of the build machine's architecture; none if
    /// the kernel has no types. The lock adds its dependencies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pahole: Vec<DebianRequirement>,
    /// Packages of the node's architecture with libraries to link, without their dependencies.
    pub cross: Vec<DebianRequirement>,
    /// Packages with files for the root or for images of pods, and with compilers of files of the
    /// root, without their dependencies.
    pub files: Vec<DebianRequirement>,
    /// Go modules to compile, in order of component.
    pub go_modules: Vec<GoRequirement>,
    /// Version of the Go toolchain: `1.26.8`.
    pub go_toolchain: String,
    /// The Rust toolchain; `None` where it compiles nothing.
    pub rust_toolchain: Option<RustRequirement>,
    /// The crates that the node's programs depend on, in order of name and version.
    pub crates: Vec<Crate>,
}

/// A Debian package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DebianRequirement {
    /// Its name.
    pub package: String,
    /// The architecture to fetch it for. A package for all architectures is found under it, too.
    pub architecture: String,
    /// Its version; `None` for the newest.
    pub version: Option<String>,
    /// Nothing: recipes had a suite once, which [`Requirements::digest`] of every lock contains.
    pub suite: (),
    /// The release of Debian that it comes from.
    #[serde(skip_serializing_if = "DebianRelease::is_default")]
    pub release: DebianRelease,
}

/// A Go module to compile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GoRequirement {
    /// The component.
    pub component: String,
    /// The module's path.
    pub module: String,
    /// The version, with `v`.
    pub version: String,
    /// Whether it is built from a module that requires it.
    pub wrapper: bool,
    /// Its packages that are compiled without their content, and so without what they import.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub empty_packages: Vec<String>,
    /// The programs.
    pub packages: Vec<GoOutput>,
    /// The test programs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<GoOutput>,
    /// Build tags. They affect what the programs import, as do the next two.
    pub tags: Vec<String>,
    /// Whether cgo is enabled.
    pub cgo: bool,
    /// The node's architecture.
    pub architecture: String,
}

/// A Rust toolchain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RustRequirement {
    /// Its version: `1.95.0`.
    pub version: String,
    /// Targets whose standard library is needed.
    pub targets: Vec<String>,
}

/// A crate from the registry, as `Cargo.lock` pins it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its archive in hexadecimal.
    pub sha256: String,
}

impl Requirements {
    /// SHA-256 of a canonical text of all this, in hexadecimal. The lock records it, and is out of
    /// date when it differs.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("strings and lists of strings always serialize");
        hex(&Sha256::digest(text))
    }

    /// SHA-256 over `NAME VERSION SHA256` lines, one for each crate, in hexadecimal.
    pub fn crates_digest(&self) -> String {
        crates_digest(&self.crates)
    }
}

/// SHA-256 of a list of crates as the lock records it. They must be in order of name and version.
pub fn crates_digest(crates: &[Crate]) -> String {
    let mut hasher = Sha256::new();
    for krate in crates {
        hasher.update(format!("{} {} {}\n", krate.name, krate.version, krate.sha256));
    }
    hex(&hasher.finalize())
}

impl DebianRequirement {
    /// The argument for apt: `NAME` or `NAME=VERSION`.
    pub fn asked(&self) -> String {
        match &self.version {
            Some(version) => format!("{}={version}", self.package),
            None => self.package.clone(),
        }
    }
}

impl GoRequirement {
    /// The requirement of a component that is compiled for an architecture.
    pub fn of<L: LockState>(go: &GoComponent<L>, architecture: Architecture) -> Self {
        GoRequirement {
            component: go.name.clone(),
            module: go.module.clone(),
            version: go.go_version(),
            wrapper: go.wrapper,
            empty_packages: go.empty_packages.clone(),
            packages: go.packages.clone(),
            tests: go.tests.clone(),
            tags: go.tags.clone(),
            cgo: go.cgo.is_some(),
            architecture: architecture.go().to_owned(),
        }
    }

    /// SHA-256 of everything that affects which modules a build reads, in hexadecimal. The
    /// toolchain's version does, because some files are only for some versions.
    pub fn digest(&self, toolchain: &str) -> String {
        let text = serde_json::to_vec(&(self, toolchain))
            .expect("strings and lists of strings always serialize");
        hex(&Sha256::digest(text))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
