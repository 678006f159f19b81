//! The lock: every input of a plan by digest.

use serde::{Deserialize, Serialize};

/// A lock file, `recipes/<recipe>.lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lock {
    /// Version of this format.
    pub version: u32,
    /// The recipe that it belongs to.
    pub recipe: String,
    /// Seconds since 1970: the time of everything that is built (`SOURCE_DATE_EPOCH`).
    pub epoch: u64,
    /// [`super::Wanted::digest`] of the plan that was locked.
    pub wanted: String,
    /// The kernel's source.
    pub kernel_source: DebianPackage,
    /// systemd's UEFI stub.
    pub stub: DebianPackage,
    /// The sandbox's root with everything that it depends on.
    pub sandbox: Packages,
    /// Libraries of the node's architecture.
    pub cross: Packages,
    /// Packages with files for the root.
    pub files: Packages,
    /// Go modules, one entry a component.
    pub go: Vec<GoLock>,
    /// Toolchains.
    pub toolchain: Toolchains,
    /// Crates.
    pub crates: CratesLock,
}

/// A list of Debian packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    /// The packages, in order of name.
    pub packages: Vec<DebianPackage>,
}

/// A Debian package of one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DebianPackage {
    /// Its name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Its architecture; `all` fits every one.
    pub architecture: String,
    /// SHA-256 of the `.deb` in hexadecimal.
    pub sha256: String,
    /// Size of the `.deb` in bytes.
    pub size: u64,
}

/// The modules of one Go component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GoLock {
    /// The component.
    pub component: String,
    /// Its module.
    pub module: String,
    /// Its version, with `v`.
    pub version: String,
    /// The go.mod of the module around it; none where there is no such module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_mod: Option<String>,
    /// Every module that the build reads, itself among them, in order of path and version.
    pub modules: Vec<GoModule>,
}

/// A Go module of one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GoModule {
    /// Its path.
    pub path: String,
    /// Its version, with `v`.
    pub version: String,
    /// The `h1:` of its zip file as in go.sum; none where only its go.mod is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
    /// The `h1:` of its go.mod as in go.sum; none where go.sum has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mod_sum: Option<String>,
    /// The zip file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zip: Option<Blob>,
    /// The go.mod.
    #[serde(rename = "mod", default, skip_serializing_if = "Option::is_none")]
    pub go_mod: Option<Blob>,
}

/// Bytes by digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Blob {
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
}

/// The toolchains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Toolchains {
    /// Go's.
    pub go: GoToolchain,
    /// Rust's.
    pub rust: RustToolchain,
}

/// The Go toolchain, which is a module (`golang.org/toolchain`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GoToolchain {
    /// Its version: `1.26.8`.
    pub version: String,
    /// The `h1:` of its zip file.
    pub sum: String,
    /// SHA-256 of its zip file in hexadecimal.
    pub sha256: String,
    /// Size of its zip file in bytes.
    pub size: u64,
}

/// The Rust toolchain with the standard library of some targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RustToolchain {
    /// Its version: `1.95.0`.
    pub version: String,
    /// The targets.
    pub targets: Vec<String>,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
}

/// The crates of the node's programs, which `Cargo.lock` pins one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CratesLock {
    /// [`super::Wanted::crates_digest`].
    pub digest: String,
}
