//! What a plan needs from outside.

use super::Resolver;
use super::binaries::texts;
use crate::error::Problem;
use crate::plan::document::Node;
use crate::plan::{
    Architecture, Binary, BootProgram, Compile, Content, DebianProgram, DebianWish, GoBuild,
    GoWish, HostProgram, ImageFrom, Kernel, Payload, Pod, PodImage, RootFile, RustWish, Wanted,
    crates,
};
use std::collections::BTreeSet;

/// The architecture of the machine that builds. The sandbox's root and the toolchains are made for
/// it.
pub const BUILD_MACHINE: Architecture = Architecture::Amd64;

/// What a node consists of, as far as it comes from outside.
pub(super) struct Parts<'p> {
    pub architecture: Architecture,
    pub kernel: &'p Kernel,
    pub binaries: &'p [Binary; 7],
    pub files: &'p [RootFile],
    pub pods: &'p [Pod],
    /// The packages of this workspace that are compiled for it.
    pub packages: &'p BTreeSet<&'p str>,
}

impl Resolver<'_> {
    /// What a node needs from outside.
    pub(super) fn wanted(&mut self, recipe: &Node, parts: &Parts) -> Option<Wanted> {
        let Parts { architecture, kernel, binaries, files, pods, packages } = *parts;
        let debian = Debian::of(recipe);
        let stub = recipe.get("uki")?.get("stub")?;
        self.note("uki.stub", &stub.spot);
        let of_binaries = || binaries.iter().filter_map(go_of_binary);
        let of_payloads = || payloads(pods).map(|payload| (&*payload.component, &payload.build));
        let from_payloads = payloads(pods)
            .flat_map(|payload| &payload.debian)
            .flat_map(DebianProgram::packages)
            .cloned();
        let from_packages = files.iter().filter_map(|file| match &file.content {
            Content::Debian { package, .. } => Some(package.clone()),
            _ => None,
        });
        Some(Wanted {
            kernel_source: Some(debian.wish(&kernel.package, BUILD_MACHINE)),
            stub: Some(debian.wish(stub.text()?, architecture)),
            sandbox: debian.wishes(self.sandbox(recipe, architecture), BUILD_MACHINE),
            cross: debian.wishes(libraries(of_binaries()), architecture),
            files: debian.wishes(from_packages.chain(from_payloads).collect(), architecture),
            go_modules: go_wishes(of_binaries().chain(of_payloads()), architecture),
            go_toolchain: self.go_version(recipe)?,
            rust_toolchain: Some(RustWish {
                version: self.rust_version()?,
                targets: [architecture.rust_musl(), architecture.rust_uefi()]
                    .map(str::to_owned)
                    .to_vec(),
            }),
            crates: self.crates(packages)?,
        })
    }

    /// What programs for the machine that builds need from outside.
    pub(super) fn wanted_by_programs(
        &mut self,
        recipe: &Node,
        programs: &[HostProgram],
    ) -> Option<Wanted> {
        let debian = Debian::of(recipe);
        let compiled = || programs.iter().map(|program| (&*program.component, &program.build));
        Some(Wanted {
            kernel_source: None,
            stub: None,
            sandbox: debian.wishes(self.sandbox(recipe, BUILD_MACHINE), BUILD_MACHINE),
            cross: debian.wishes(libraries(compiled()), BUILD_MACHINE),
            files: Vec::new(),
            go_modules: go_wishes(compiled(), BUILD_MACHINE),
            go_toolchain: self.go_version(recipe)?,
            rust_toolchain: None,
            crates: Vec::new(),
        })
    }

    fn go_version(&mut self, recipe: &Node) -> Option<String> {
        let go = recipe.get("toolchains")?.get("go")?;
        self.note("toolchains.go", &go.spot);
        go.text().map(str::to_owned)
    }

    fn sandbox(&self, recipe: &Node, architecture: Architecture) -> BTreeSet<String> {
        let own = format!("packages-{}", architecture.name());
        let sections =
            self.components.used().chain([recipe]).filter_map(|node| node.get("sandbox"));
        sections
            .flat_map(|section| [section.get("packages"), section.get(&own)])
            .flat_map(texts)
            .collect()
    }

    /// Rust's version stands where `rustup` looks for it, so that the builder and the node are
    /// compiled by the same.
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

    fn crates(&mut self, packages: &BTreeSet<&str>) -> Option<Vec<crate::plan::Crate>> {
        let text = self.project.text("Cargo.lock", &mut self.problems).unwrap_or_default();
        let closure =
            crates::closure(text, packages).map_err(|error| self.problems.extend(error.problems));
        closure.ok().map(|closure| closure.crates)
    }
}

/// Wishes for Debian packages of the suite that a recipe names.
struct Debian {
    suite: Option<String>,
}

impl Debian {
    fn of(recipe: &Node) -> Self {
        Debian {
            suite: recipe
                .get("sandbox")
                .and_then(|sandbox| sandbox.text_of("suite"))
                .map(str::to_owned),
        }
    }

    fn wish(&self, package: &str, architecture: Architecture) -> DebianWish {
        let (package, architecture) = (package.to_owned(), architecture.debian().to_owned());
        DebianWish { package, architecture, version: None, suite: self.suite.clone() }
    }

    fn wishes(&self, packages: BTreeSet<String>, architecture: Architecture) -> Vec<DebianWish> {
        packages.iter().map(|package| self.wish(package, architecture)).collect()
    }
}

/// The packages of this workspace that are compiled for a node.
pub(super) fn cargo_packages<'p>(
    boot: &'p BootProgram,
    binaries: &'p [Binary; 7],
    pods: &'p [Pod],
    pause: &'p PodImage,
) -> BTreeSet<&'p str> {
    let of_binaries = binaries.iter().filter_map(|binary| match &binary.build {
        Compile::Cargo { package, .. } => Some(package.as_str()),
        Compile::Go(_) => None,
    });
    let images = pods.iter().flat_map(|pod| &pod.images).chain([pause]);
    let of_images = images.filter_map(|image| match &image.from {
        ImageFrom::Built { package, .. } => Some(package.as_str()),
        ImageFrom::Archive { .. } => None,
    });
    of_binaries.chain(of_images).chain([boot.package.as_str()]).collect()
}

/// What the pods' images carry for the node.
fn payloads(pods: &[Pod]) -> impl Iterator<Item = &Payload> {
    pods.iter().flat_map(|pod| &pod.images).filter_map(PodImage::payload)
}

/// The component of a binary and how it is compiled, if that is by Go.
fn go_of_binary(binary: &Binary) -> Option<(&str, &GoBuild)> {
    match &binary.build {
        Compile::Go(build) => Some((&*binary.component, build)),
        Compile::Cargo { .. } => None,
    }
}

/// The Debian packages with libraries that cgo links.
fn libraries<'p>(compiled: impl Iterator<Item = (&'p str, &'p GoBuild)>) -> BTreeSet<String> {
    compiled
        .filter_map(|(_, build)| build.cgo.as_ref())
        .flat_map(|cgo| cgo.debian.clone())
        .collect()
}

/// One entry for each compilation: programs that come from the same one share it. Each comes with
/// its component.
fn go_wishes<'p>(
    compiled: impl Iterator<Item = (&'p str, &'p GoBuild)>,
    architecture: Architecture,
) -> Vec<GoWish> {
    let wish = |(component, build): (&str, &GoBuild)| GoWish {
        component: component.to_owned(),
        module: build.module.clone(),
        version: build.version.clone(),
        wrapper: build.wrapper,
        packages: build.packages.clone(),
        tags: build.tags.clone(),
        cgo: build.cgo.is_some(),
        architecture: architecture.go().to_owned(),
    };
    let all: BTreeSet<GoWish> = compiled.map(wish).collect();
    all.into_iter().collect()
}
