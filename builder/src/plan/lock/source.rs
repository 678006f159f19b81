//! A locked input, whose digest is known before it is fetched.

use super::{Crate, DebianPackage, Lock};
use crate::plan::{Architecture, DebianProgram, HostComponent, ImageFrom, Locked, Plan};

/// A locked input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// SHA-256 in hexadecimal.
    pub digest: String,
    /// Its size in bytes, where the lock knows it.
    pub size: Option<u64>,
    /// Its name for people: `libseccomp-dev 2.5.4-1+deb12u1 arm64`.
    pub name: String,
    /// Where it comes from.
    pub kind: SourceKind,
}

/// The origin of a source, with what its client asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// A `.deb`, through `apt`.
    Debian(DebianPackage),
    /// The zip file of a Go module, through `go`.
    GoZip {
        /// The module's path.
        path: String,
        /// The module's version.
        version: String,
    },
    /// The go.mod of a Go module, through `go`.
    GoMod {
        /// The module's path.
        path: String,
        /// The module's version.
        version: String,
    },
    /// The Go toolchain, through `go`.
    GoToolchain {
        /// Its version.
        version: String,
    },
    /// The Rust toolchain, through `rustup`.
    RustToolchain {
        /// Its version.
        version: String,
        /// Targets whose standard library is in it.
        targets: Vec<String>,
    },
    /// The image of a pod: an OCI archive of the project, or the `index.json` of a layout, which
    /// names all else by digest.
    PodImage {
        /// The name that manifests call it by.
        name: String,
    },
    /// A crate, through `cargo`.
    Crate {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
    },
}

impl SourceKind {
    /// Its ecosystem in one word.
    pub fn word(&self) -> &'static str {
        match self {
            SourceKind::Debian(_) => "debian",
            SourceKind::GoZip { .. } => "go-zip",
            SourceKind::GoMod { .. } => "go-mod",
            SourceKind::GoToolchain { .. } => "go-toolchain",
            SourceKind::RustToolchain { .. } => "rust-toolchain",
            SourceKind::PodImage { .. } => "pod-image",
            SourceKind::Crate { .. } => "crate",
        }
    }
}

impl Source {
    /// The image of a pod that a recipe pins by this SHA-256, in hexadecimal.
    pub fn pod_image(name: &str, sha256: &str) -> Self {
        let kind = SourceKind::PodImage { name: name.to_owned() };
        Source { digest: sha256.to_owned(), size: None, name: format!("image {name}"), kind }
    }
}

impl Plan<Locked> {
    /// Every input of the node, without repetition, in a fixed order: what the lock pins, and the
    /// images of pods that the recipe pins.
    pub fn sources(&self) -> Vec<Source> {
        let pods = self.images().filter_map(|image| match &image.from {
            ImageFrom::Archive { digest, .. } => {
                Some(Source::pod_image(&image.name, digest.trim_start_matches("sha256:")))
            }
            ImageFrom::Built { .. } => None,
        });
        let mut all: Vec<Source> =
            self.lock.get().sources(&self.requirements.crates).into_iter().chain(pods).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The packages of the sandbox whose bytes can be in a product: compilers, and the C library
    /// that they link.
    pub fn compilers(&self) -> impl Iterator<Item = &DebianPackage> {
        let compiles = |package: &&DebianPackage| {
            ["binutils", "gcc", "libc6-dev"].iter().any(|name| package.package.starts_with(name))
        };
        self.lock.get().sandbox.packages.iter().filter(compiles)
    }

    /// The packages of which the images of pods carry programs.
    pub fn carried(&self) -> impl Iterator<Item = &DebianPackage> {
        let programs = self.payloads().flat_map(|payload| &payload.debian);
        programs.flat_map(DebianProgram::packages).map(|package| &package.lock)
    }

    /// The packages whose bytes are in the node because its C programs are linked statically: the
    /// libraries for the node, and from the sandbox the C library and the compiler's own libraries.
    pub fn statically_linked(&self) -> impl Iterator<Item = &DebianPackage> {
        let lock = self.lock.get();
        let has_c = self.components.iter().filter_map(HostComponent::go).any(|go| go.cgo.is_some());
        let is_linked = move |package: &&DebianPackage| {
            let (name, is_cross) = match package.package.strip_suffix("-arm64-cross") {
                Some(name) => (name, true),
                None => (package.package.as_str(), false),
            };
            let is_library =
                name == "libc6-dev" || name.starts_with("libgcc-") && name.ends_with("-dev");
            is_library && is_cross == (self.architecture == Architecture::Arm64)
        };
        let all = lock.sandbox.packages.iter().filter(is_linked).chain(&lock.cross.packages);
        all.filter(move |_| has_c)
    }
}

impl Lock {
    /// Every input of this lock and of `crates`, each once, in a fixed order.
    pub fn sources(&self, crates: &[Crate]) -> Vec<Source> {
        let debian = self.debian_packages().map(debian_source);
        let go = self.go.iter().flat_map(|go| &go.modules).flat_map(|module| {
            let zip = module.zip.as_ref().map(|blob| {
                let kind = SourceKind::GoZip {
                    path: module.path.clone(),
                    version: module.version.clone(),
                };
                Source {
                    digest: blob.sha256.clone(),
                    size: Some(blob.size),
                    name: format!("{} {}", module.path, module.version),
                    kind,
                }
            });
            let text = module.go_mod.as_ref().map(|blob| {
                let kind = SourceKind::GoMod {
                    path: module.path.clone(),
                    version: module.version.clone(),
                };
                let name = format!("go.mod of {} {}", module.path, module.version);
                Source { digest: blob.sha256.clone(), size: Some(blob.size), name, kind }
            });
            zip.into_iter().chain(text)
        });
        let crates = crates.iter().map(|krate| Source {
            digest: krate.sha256.clone(),
            size: self.crates.size(krate),
            name: format!("crate {} {}", krate.name, krate.version),
            kind: SourceKind::Crate { name: krate.name.clone(), version: krate.version.clone() },
        });
        let mut all: Vec<Source> =
            debian.chain(go).chain(self.toolchain_sources()).chain(crates).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Every Debian package that is locked.
    pub fn debian_packages(&self) -> impl Iterator<Item = &DebianPackage> {
        let single = [&self.kernel_source, &self.stub];
        let lists = [&self.sandbox, &self.launcher, &self.pahole, &self.cross, &self.files];
        single.into_iter().flatten().chain(lists.into_iter().flat_map(|list| &list.packages))
    }

    fn toolchain_sources(&self) -> impl Iterator<Item = Source> {
        let go = &self.toolchain.go;
        let go = Source {
            digest: go.sha256.clone(),
            size: Some(go.size),
            name: format!("Go {}", go.version),
            kind: SourceKind::GoToolchain { version: go.version.clone() },
        };
        let rust = self.toolchain.rust.iter().map(|rust| Source {
            digest: rust.sha256.clone(),
            size: Some(rust.size),
            name: format!("Rust {}", rust.version),
            kind: SourceKind::RustToolchain {
                version: rust.version.clone(),
                targets: rust.targets.clone(),
            },
        });
        std::iter::once(go).chain(rust)
    }
}

fn debian_source(package: &DebianPackage) -> Source {
    Source {
        digest: package.sha256.clone(),
        size: Some(package.size),
        name: format!("{} {} {}", package.package, package.version, package.architecture),
        kind: SourceKind::Debian(package.clone()),
    }
}
