//! What a plan needs from outside.

use super::Resolver;
use super::binaries::texts;
use crate::error::Problem;
use crate::plan::document::Node;
use crate::plan::{
    Architecture, Binary, BootProgram, Compile, Content, DebianProgram, DebianWish, GoBuild, GoWish, ImageFrom, Kernel, Payload,
    Pod, PodImage, RootFile, RustWish, Wanted, crates,
};
use std::collections::BTreeSet;

/// The architecture of the machine that builds. The sandbox's root and the toolchains are made for it.
pub const BUILD_MACHINE: Architecture = Architecture::Amd64;

impl Resolver<'_> {
    pub(super) fn wanted(
        &mut self,
        recipe: &Node,
        architecture: Architecture,
        kernel: &Kernel,
        binaries: &[Binary; 7],
        files: &[RootFile],
        pods: &[Pod],
        packages: &BTreeSet<&str>,
    ) -> Option<Wanted> {
        let suite = recipe.get("sandbox").and_then(|sandbox| sandbox.text_of("suite")).map(str::to_owned);
        let wish = |package: &str, architecture: Architecture| DebianWish {
            package: package.to_owned(),
            architecture: architecture.debian().to_owned(),
            version: None,
            suite: suite.clone(),
        };
        let wishes = |packages: BTreeSet<String>, of: Architecture| packages.iter().map(|package| wish(package, of)).collect();
        let stub = recipe.get("uki")?.get("stub")?;
        self.note("uki.stub", &stub.spot);
        let go = recipe.get("toolchains")?.get("go")?;
        self.note("toolchains.go", &go.spot);
        let libraries = binaries.iter().flat_map(|binary| match &binary.build {
            Compile::Go(GoBuild { cgo: Some(cgo), .. }) => cgo.debian.clone(),
            _ => Vec::new(),
        });
        let from_payloads = payloads(pods).flat_map(|payload| &payload.debian).flat_map(DebianProgram::packages).cloned();
        let from_packages = files.iter().filter_map(|file| match &file.content {
            Content::Debian { package, .. } => Some(package.clone()),
            _ => None,
        });
        Some(Wanted {
            kernel_source: wish(&kernel.package, BUILD_MACHINE),
            stub: wish(stub.text()?, architecture),
            sandbox: wishes(self.sandbox(recipe, architecture), BUILD_MACHINE),
            cross: wishes(libraries.collect(), architecture),
            files: wishes(from_packages.chain(from_payloads).collect(), architecture),
            go_modules: go_wishes(binaries, pods, architecture),
            go_toolchain: go.text()?.to_owned(),
            rust_toolchain: RustWish {
                version: self.rust_version()?,
                targets: [architecture.rust_musl(), architecture.rust_uefi()].map(str::to_owned).to_vec(),
            },
            crates: self.crates(packages)?,
        })
    }

    fn sandbox(&self, recipe: &Node, architecture: Architecture) -> BTreeSet<String> {
        let own = format!("packages-{}", architecture.name());
        let sections = self.components.used().chain([recipe]).filter_map(|node| node.get("sandbox"));
        sections.flat_map(|section| [section.get("packages"), section.get(&own)]).flat_map(texts).collect()
    }

    /// Rust's version stands where `rustup` looks for it, so that the builder and the node are compiled by the same.
    fn rust_version(&mut self) -> Option<String> {
        const PATH: &str = "rust-toolchain.toml";
        let text = self.project.text(PATH, &mut self.problems).unwrap_or_default();
        let table: Option<toml::Table> = text.parse().ok();
        let channel = table.as_ref().and_then(|table| table.get("toolchain")?.get("channel")?.as_str());
        if channel.is_none() {
            self.problems.push(Problem::new(format!("`{PATH}` names no `channel`")));
        }
        channel.map(str::to_owned)
    }

    fn crates(&mut self, packages: &BTreeSet<&str>) -> Option<Vec<crate::plan::Crate>> {
        let text = self.project.text("Cargo.lock", &mut self.problems).unwrap_or_default();
        let closure = crates::closure(text, packages).map_err(|error| self.problems.extend(error.problems));
        closure.ok().map(|closure| closure.crates)
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

/// One entry for each compilation: binaries that come from the same one share it.
fn go_wishes(binaries: &[Binary; 7], pods: &[Pod], architecture: Architecture) -> Vec<GoWish> {
    let of_binaries = binaries.iter().filter_map(|binary| match &binary.build {
        Compile::Go(build) => Some((&binary.component, build)),
        Compile::Cargo { .. } => None,
    });
    let of_payloads = payloads(pods).map(|payload| (&payload.component, &payload.build));
    let wish = |(component, build): (&String, &GoBuild)| GoWish {
        component: component.clone(),
        module: build.module.clone(),
        version: build.version.clone(),
        wrapper: build.wrapper,
        packages: build.packages.clone(),
        tags: build.tags.clone(),
        cgo: build.cgo.is_some(),
        architecture: architecture.go().to_owned(),
    };
    let all: BTreeSet<GoWish> = of_binaries.chain(of_payloads).map(wish).collect();
    all.into_iter().collect()
}
