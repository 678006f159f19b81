//! The packages that a node is made of, and which of its components hold each.

use super::{
    CargoLock, Compile, Content, DebianProgram, ImageFrom, Locked, Plan, Product, Purl, SourceKind,
};
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The components that are part of a node without being named by its recipe.
const KERNEL: &str = "linux";
const STUB: &str = "stub";
/// The files of the root that are no programs.
const FILES: &str = "files";

/// The components that hold a package, by the URL of the package.
pub type Holders = BTreeMap<String, BTreeSet<String>>;

impl Plan<Locked> {
    /// The packages of the node with the components that hold them. `workspace` is the `Cargo.lock`
    /// of the node's own programs.
    ///
    /// # Errors
    /// It lacks a package of one of them.
    pub fn packages(&self, workspace: &CargoLock) -> Result<Holders> {
        let mut holders = Holders::new();
        let mut add = |source: &SourceKind, component: &str| {
            let holders = holders.entry(Purl::of(source).url).or_default();
            holders.insert(component.to_owned());
        };
        self.debian_sources(&mut add);
        self.go_sources(&mut add);
        self.archives(&mut add);
        for (component, package) in self.own_programs() {
            for krate in workspace.closure(&BTreeSet::from([package]))?.crates {
                add(&SourceKind::Crate { name: krate.name, version: krate.version }, component);
            }
            if let Some(rust) = &self.lock.get().toolchain.rust {
                let (version, targets) = (rust.version.clone(), Vec::new());
                add(&SourceKind::RustToolchain { version, targets }, component);
            }
        }
        Ok(holders)
    }

    /// The components with a program of this workspace, and its Cargo package.
    fn own_programs(&self) -> impl Iterator<Item = (&str, &str)> {
        let of_host = self.components.iter().filter_map(|one| match &one.build {
            Compile::Cargo { component, package } => Some((component.as_str(), package.as_str())),
            Compile::Go(_) => None,
        });
        let of_images = self.images().filter_map(|image| match &image.from {
            ImageFrom::Built { bin, package, .. } => Some((bin.as_str(), package.as_str())),
            ImageFrom::Archive { .. } => None,
        });
        of_host.chain(of_images).chain([(self.boot.component.as_str(), self.boot.package.as_str())])
    }

    /// The modules of the Go components, and the toolchain, whose library is in each program.
    fn go_sources(&self, add: &mut impl FnMut(&SourceKind, &str)) {
        let version = &self.lock.get().toolchain.go.version;
        for go in self.go_components() {
            add(&SourceKind::GoToolchain { version: version.clone() }, &go.name);
            for module in go.lock.modules.iter().filter(|module| module.zip.is_some()) {
                let (path, version) = (module.path.clone(), module.version.clone());
                add(&SourceKind::GoZip { path, version }, &go.name);
            }
        }
    }

    /// The kernel and the stub, packages with files of the root or with programs that an image
    /// carries, and libraries that C code is linked with.
    fn debian_sources(&self, add: &mut impl FnMut(&SourceKind, &str)) {
        let lock = self.lock.get();
        for (package, component) in [(&lock.kernel_source, KERNEL), (&lock.stub, STUB)] {
            if let Some(package) = package {
                add(&SourceKind::Debian(package.clone()), component);
            }
        }
        for file in &self.files {
            if let Content::Debian { package, .. } = &file.content {
                add(&SourceKind::Debian(package.lock.clone()), FILES);
            }
        }
        for payload in self.payloads() {
            for package in payload.debian.iter().flat_map(DebianProgram::packages) {
                add(&SourceKind::Debian(package.lock.clone()), &payload.go.name);
            }
        }
        for go in self.go_components().into_iter().filter(|go| go.cgo.is_some()) {
            for package in self.statically_linked() {
                add(&SourceKind::Debian(package.clone()), &go.name);
            }
        }
    }

    /// The images of pods that the recipe pins as they are.
    fn archives(&self, add: &mut impl FnMut(&SourceKind, &str)) {
        for pod in &self.pods {
            for image in &pod.images {
                if matches!(image.from, ImageFrom::Archive { .. }) {
                    add(&SourceKind::PodImage { name: image.name.clone() }, &pod.name);
                }
            }
        }
    }
}
