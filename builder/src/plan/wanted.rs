//! Everything that a lock has to pin.

use super::binary::GoOutput;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// What a plan needs from outside, in the order of the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// The package with the kernel's source; none where no node is made.
    pub kernel_source: Option<DebianWish>,
    /// The package with systemd's UEFI stub, of the node's architecture; none where no node is
    /// made.
    pub stub: Option<DebianWish>,
    /// Packages of the build machine's architecture that make up the sandbox's root, in order of
    /// name. The lock adds what they depend on.
    pub sandbox: Vec<DebianWish>,
    /// Packages of the node's architecture with libraries to link, without what they depend on.
    pub cross: Vec<DebianWish>,
    /// Packages with files for the root or for images of pods, without what they depend on.
    pub files: Vec<DebianWish>,
    /// Go modules to compile, in order of component.
    pub go_modules: Vec<GoWish>,
    /// Version of the Go toolchain: `1.26.8`.
    pub go_toolchain: String,
    /// The Rust toolchain; none where nothing is compiled by it.
    pub rust_toolchain: Option<RustWish>,
    /// The crates that the node's programs are made of, in order of name and version.
    pub crates: Vec<Crate>,
}

/// A Debian package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DebianWish {
    /// Its name.
    pub package: String,
    /// The architecture to fetch it for. A package that fits every architecture is found under this
    /// one too.
    pub architecture: String,
    /// Its version; none is the newest.
    pub version: Option<String>,
    /// The suite that it comes from; none is the build machine's own.
    pub suite: Option<String>,
}

/// A Go module that is compiled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GoWish {
    /// The component.
    pub component: String,
    /// The module's path.
    pub module: String,
    /// The version, with `v`.
    pub version: String,
    /// Whether it needs a module around it.
    pub wrapper: bool,
    /// The programs.
    pub packages: Vec<GoOutput>,
    /// Build tags, which decide what the programs import.
    pub tags: Vec<String>,
    /// Whether cgo is on, which decides too.
    pub cgo: bool,
    /// The node's architecture, which decides too.
    pub architecture: String,
}

/// A Rust toolchain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RustWish {
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

impl Wanted {
    /// SHA-256 of a canonical text of all this, in hexadecimal. The lock records it; another value
    /// makes the lock stale.
    pub fn digest(&self) -> String {
        let text = serde_json::to_vec(self).expect("strings and lists of strings always serialize");
        hex(&Sha256::digest(text))
    }

    /// The suite that Debian packages come from; none is the build machine's own.
    pub fn suite(&self) -> Option<&str> {
        let lists = [&self.sandbox, &self.cross, &self.files].into_iter().flatten();
        self.kernel_source.iter().chain(lists).find_map(|wish| wish.suite.as_deref())
    }

    /// SHA-256 over `NAME VERSION SHA256` lines, one for each crate, in hexadecimal.
    pub fn crates_digest(&self) -> String {
        crates_digest(&self.crates)
    }
}

/// SHA-256 of the list of these crates, as the lock has it: they are in order of name and version.
pub fn crates_digest(crates: &[Crate]) -> String {
    let mut hasher = Sha256::new();
    for krate in crates {
        hasher.update(format!("{} {} {}\n", krate.name, krate.version, krate.sha256));
    }
    hex(&hasher.finalize())
}

impl DebianWish {
    /// How apt is asked for it: `NAME`, `NAME=VERSION` or `NAME/SUITE`.
    pub fn asked(&self) -> String {
        match (&self.version, &self.suite) {
            (Some(version), _) => format!("{}={version}", self.package),
            (None, Some(suite)) => format!("{}/{suite}", self.package),
            (None, None) => self.package.clone(),
        }
    }
}

impl GoWish {
    /// SHA-256 of all that decides which modules a build reads, in hexadecimal. The toolchain's
    /// version decides too, by the files that are for some versions alone.
    pub fn digest(&self, toolchain: &str) -> String {
        let text = serde_json::to_vec(&(self, toolchain))
            .expect("strings and lists of strings always serialize");
        hex(&Sha256::digest(text))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
