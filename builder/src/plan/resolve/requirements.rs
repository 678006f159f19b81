//! The inputs that a plan needs from outside.

use super::{Resolver, texts};
use crate::error::Problem;
use crate::plan::document::Located;
use crate::plan::keys::{DebianName, List, RecipeFile};
use crate::plan::{
    Architecture, CargoLock, Compile, Content, Crate, DebianProgram, DebianRelease,
    DebianRequirement, GoComponent, GoRequirement, HostComponent, HostPrograms, ImageFrom, Kernel,
    NodeSpec, Product, Requirements, RustRequirement,
};
use std::collections::BTreeSet;

/// The architecture of the build machine, which the sandbox's root and the toolchains are for.
pub const BUILD_MACHINE: Architecture = Architecture::Amd64;

/// The packages of the launcher.
const LAUNCHER: [&str; 2] = ["bubblewrap", "busybox-static"];

/// A node and what else affects its requirements.
pub(super) struct Parts<'p> {
    pub architecture: Architecture,
    pub node: &'p NodeSpec,
    /// The packages of this workspace that are compiled for it.
    pub packages: BTreeSet<&'p str>,
}

impl Resolver<'_> {
    /// The inputs that a node needs from outside.
    pub(super) fn requirements(
        &mut self,
        recipe: &RecipeFile,
        parts: &Parts,
    ) -> Option<Requirements> {
        let Parts { architecture, node, ref packages } = *parts;
        let stub = recipe.uki.as_ref()?.stub.as_ref()?;
        self.note("uki.stub", &stub.spot);
        let payloads = node.payloads().flat_map(|payload| &payload.debian);
        let from_payloads = payloads.flat_map(DebianProgram::packages);
        let from_packages = node.files.iter().filter_map(|file| match &file.content {
            Content::Debian { package, .. } => Some(package),
            _ => None,
        });
        let parsers = node.files.iter().filter_map(|file| match &file.content {
            Content::AppArmorProfile { parser, .. } => Some(parser.name.clone()),
            _ => None,
        });
        let names =
            from_packages.chain(from_payloads).map(|package| package.name.clone()).collect();
        let mut files = all(names, architecture);
        let parsers = all(parsers.collect(), BUILD_MACHINE);
        // A node of the build machine's architecture may have files of the same package.
        let parsers: Vec<_> = parsers.into_iter().filter(|each| !files.contains(each)).collect();
        files.extend(parsers);
        let of_host = node.components.iter().filter_map(HostComponent::go);
        Some(Requirements {
            kernel_source: Some(debian(&node.kernel.package, BUILD_MACHINE)),
            stub: Some(debian(stub, architecture)),
            sandbox: all(self.sandbox(recipe, architecture), BUILD_MACHINE),
            launcher: launcher(),
            pahole: pahole(&node.kernel),
            cross: all(libraries(of_host), architecture),
            files,
            go_modules: go_modules(node, architecture),
            go_toolchain: self.go_version(recipe)?,
            rust_toolchain: Some(RustRequirement {
                version: self.rust_version()?,
                targets: [architecture.rust_musl(), architecture.rust_uefi()]
                    .map(str::to_owned)
                    .to_vec(),
            }),
            crates: self.crates(packages)?,
        })
    }

    /// The inputs that programs for the build machine need from outside.
    pub(super) fn requirements_of_programs(
        &mut self,
        recipe: &RecipeFile,
        programs: &HostPrograms,
    ) -> Option<Requirements> {
        let components = programs.components.iter().map(|component| &component.go);
        Some(Requirements {
            kernel_source: None,
            stub: None,
            sandbox: all(self.sandbox(recipe, BUILD_MACHINE), BUILD_MACHINE),
            launcher: launcher(),
            pahole: Vec::new(),
            cross: all(libraries(components), BUILD_MACHINE),
            files: Vec::new(),
            go_modules: go_modules(programs, BUILD_MACHINE),
            go_toolchain: self.go_version(recipe)?,
            rust_toolchain: None,
            crates: Vec::new(),
        })
    }

    fn go_version(&mut self, recipe: &RecipeFile) -> Option<String> {
        let go = recipe.toolchains.as_ref()?.go.as_ref()?;
        self.note("toolchains.go", &go.spot);
        Some(go.value.to_string())
    }

    fn sandbox(&self, recipe: &RecipeFile, architecture: Architecture) -> BTreeSet<String> {
        let of_recipe = recipe.sandbox.iter().map(|section| &section.packages);
        let components = self.components.used().filter_map(|component| component.sandbox.as_ref());
        let of_components =
            components.flat_map(|section| [&section.packages, section.packages_for(architecture)]);
        let lists = of_recipe.chain(of_components);
        let list = |list: &Option<Located<List<DebianName>>>| texts(list.as_ref());
        lists.flat_map(list).collect()
    }

    /// The version of Rust is in the file that `rustup` reads, so that the builder and the node are
    /// compiled by the same one.
    fn rust_version(&mut self) -> Option<String> {
        const PATH: &str = "rust-toolchain.toml";
        let text = self.project.text(PATH, &mut self.problems).unwrap_or_default();
        let table: Option<toml::Table> = text.parse().ok();
        let channel =
            table.as_ref().and_then(|table| table.get("toolchain")?.get("channel")?.as_str());
        if channel.is_none() {
            self.problems.push(Problem::new(format!("`{PATH}` names no `channel`")));
        }
        channel.map(str::to_owned)
    }

    fn crates(&mut self, packages: &BTreeSet<&str>) -> Option<Vec<Crate>> {
        let text = self.project.text("Cargo.lock", &mut self.problems).unwrap_or_default();
        let closure = CargoLock::parse(text).and_then(|lock| lock.closure(packages));
        let closure = closure.map_err(|error| self.problems.extend(error.problems));
        closure.ok().map(|closure| closure.crates)
    }
}

/// The newest version of a Debian package.
fn debian(package: &str, architecture: Architecture) -> DebianRequirement {
    DebianRequirement {
        package: package.to_owned(),
        architecture: architecture.debian().to_owned(),
        version: None,
        suite: (),
        release: DebianRelease::default(),
    }
}

fn all(packages: BTreeSet<String>, architecture: Architecture) -> Vec<DebianRequirement> {
    packages.iter().map(|package| debian(package, architecture)).collect()
}

fn launcher() -> Vec<DebianRequirement> {
    all(LAUNCHER.map(str::to_owned).into(), BUILD_MACHINE)
}

/// The program that writes the kernel's types, if the kernel has them. That of Debian 12 cannot
/// write the same bytes each time with several threads.
fn pahole(kernel: &Kernel) -> Vec<DebianRequirement> {
    let requirement =
        || DebianRequirement { release: DebianRelease::Trixie, ..debian("pahole", BUILD_MACHINE) };
    kernel.has_types().then(requirement).into_iter().collect()
}

/// The packages of this workspace that are compiled for a node.
pub(super) fn cargo_packages(node: &NodeSpec) -> BTreeSet<&str> {
    let of_host = node.components.iter().filter_map(|component| match &component.build {
        Compile::Cargo { package, .. } => Some(package.as_str()),
        Compile::Go(_) => None,
    });
    let of_images = node.images().filter_map(|image| match &image.from {
        ImageFrom::Built { package, .. } => Some(package.as_str()),
        ImageFrom::Archive { .. } => None,
    });
    of_host.chain(of_images).chain([node.boot.package.as_str()]).collect()
}

/// The Debian packages with libraries that cgo links.
fn libraries<'p>(components: impl Iterator<Item = &'p GoComponent>) -> BTreeSet<String> {
    components.filter_map(|go| go.cgo.as_ref()).flat_map(|cgo| cgo.debian.clone()).collect()
}

/// The requirement of each Go component.
fn go_modules(
    product: &impl Product<crate::plan::Unlocked>,
    architecture: Architecture,
) -> Vec<GoRequirement> {
    let requirement = |go: &GoComponent| GoRequirement::of(go, architecture);
    product.go_components().into_iter().map(requirement).collect()
}
