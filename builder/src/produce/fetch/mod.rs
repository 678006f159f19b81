//! Fetches locked sources into the store, from a folder of exported sources or with each
//! ecosystem's own client.

mod client;
mod crates;
mod debian;
pub mod git;
mod go;
mod gone;
mod mirrors;
mod pin;
mod proxy;
mod releases;
mod rust;

pub use go::{escaped, wrapper_program};

use super::exported::Exported;
use crate::engine::digest::Digest;
use crate::engine::store::{Scratch, Store};
use crate::engine::toolchain;
use crate::error::{Error, Result};
use crate::plan::{
    Architecture, Blob, DebianPackage, GoModule, GoRequirement, Lock, Locked, Plan, Product,
    Requirements, Source, SourceKind,
};
use crate::report::{Outcome, Report};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The origin of sources that the store lacks.
#[derive(Clone, Debug)]
pub enum SourceOrigin {
    /// Each ecosystem's client, with the user's mirrors.
    Registries,
    /// A folder that `cargo osbuild sources export` wrote, and nothing else.
    Exported(PathBuf),
    /// None: a missing source is an error.
    Store,
}

/// Fetches what a plan has locked.
#[derive(Clone)]
pub struct Fetcher<'a> {
    /// Where sources go.
    pub store: &'a Store,
    /// Where progress is reported.
    pub report: &'a Report,
    /// The root of the project, for `cargo fetch`.
    pub project: &'a Path,
    /// Where sources come from that the store lacks.
    pub origin: SourceOrigin,
}

impl Fetcher<'_> {
    /// Fetches every source of `plan` that the store lacks.
    ///
    /// # Errors
    /// A source is gone, cannot be reached, or is not what the lock says.
    pub fn fetch<P: Product<Locked>>(&self, plan: &Plan<Locked, P>) -> Result<()> {
        let (lock, wanted) = (plan.lock.get(), &plan.requirements);
        let is_there = |source: &Source| match source.kind {
            SourceKind::RustToolchain { .. } if toolchain::has_rust(self.store, &source.digest) => {
                true
            }
            _ => self.store.find(&source.digest).is_some(),
        };
        let missing = lock
            .sources(&wanted.crates)
            .into_iter()
            .filter(|source| !is_there(source))
            .collect::<Vec<_>>();
        if missing.is_empty() {
            return Ok(());
        }
        match &self.origin {
            SourceOrigin::Registries => self.out_of_registries(plan, &missing),
            SourceOrigin::Exported(folder) => self.out_of_folder(folder, &missing),
            SourceOrigin::Store => Err(unreachable_sources(&missing)),
        }
    }

    fn out_of_folder(&self, folder: &Path, missing: &[Source]) -> Result<()> {
        let step = self.report.step("sources");
        let exported = Exported::at(folder);
        for source in missing {
            step.doing(source.name.clone());
            exported.take(self.store, &source.digest, &source.name)?;
        }
        step.done(&format!("{} sources", missing.len()), None, Outcome::Ran);
        Ok(())
    }

    fn out_of_registries<P: Product<Locked>>(
        &self,
        plan: &Plan<Locked, P>,
        missing: &[Source],
    ) -> Result<()> {
        let (lock, wanted) = (plan.lock.get(), &plan.requirements);
        let debian = missing.iter().filter_map(|source| {
            if let SourceKind::Debian(package) = &source.kind { Some(package) } else { None }
        });
        for architecture in Architecture::ALL {
            let packages = debian
                .clone()
                .filter(|package| plan_architecture(package) == architecture)
                .collect::<Vec<_>>();
            if !packages.is_empty() {
                self.debian(architecture, &packages)?;
            }
        }
        let lacks = |digest: &str| missing.iter().any(|source| source.digest == digest);
        for component in plan.product.go_components() {
            let blobs = component
                .lock
                .modules
                .iter()
                .flat_map(|module| module.zip.iter().chain(&module.go_mod));
            if blobs.map(|blob| &blob.sha256).any(|digest| lacks(digest)) {
                let required = GoRequirement::of(component, plan.architecture);
                self.go(&required, component.lock.go_mod.as_deref(), &wanted.go_toolchain)?;
            }
        }
        self.toolchains(lock, wanted, lacks)?;
        if wanted.crates.iter().any(|krate| lacks(&krate.sha256)) {
            let step = self.report.step("crates");
            crates::fetch(self.store, self.project, &wanted.crates, &step)?;
            step.done(&format!("{} crates", wanted.crates.len()), None, Outcome::Ran);
        }
        self.all_there(missing)
    }

    fn debian(&self, architecture: Architecture, packages: &[&DebianPackage]) -> Result<()> {
        let step = self.report.step(format!("packages {architecture}"));
        let archive = debian::Archive::open(self.store, architecture, &step)?;
        // Another build that held the archive may have fetched the same.
        let packages: Vec<_> = packages
            .iter()
            .copied()
            .filter(|package| self.store.find(&package.sha256).is_none())
            .collect();
        if packages.is_empty() {
            return Ok(());
        }
        archive.update(&step)?;
        let folder = self.scratch()?;
        for file in archive.download(&packages, folder.path(), &step)? {
            self.store.put_file(&file)?;
        }
        step.done(
            &format!("{} packages", packages.len()),
            Some(packages.iter().map(|package| package.size).sum()),
            Outcome::Ran,
        );
        Ok(())
    }

    fn go(
        &self,
        wish: &GoRequirement,
        go_mod: Option<&str>,
        toolchain: &str,
    ) -> Result<go::Modules> {
        let step = self.report.step(format!("modules {}", wish.component));
        let found = go::modules(self.store, self.scratch()?.path(), wish, go_mod, toolchain, &step);
        let found = found.map_err(|error| self.module_gone(error, wish, &step))?;
        step.done(&format!("{} modules", found.modules.len()), None, Outcome::Ran);
        Ok(found)
    }

    fn go_toolchain(&self, version: &str) -> Result<GoModule> {
        let step = self.report.step("toolchain go");
        let module = go::toolchain(self.store, self.scratch()?.path(), version, &step);
        let module = module.map_err(|error| self.toolchain_gone(error, version, &step))?;
        step.done(&format!("go {version}"), module.zip.as_ref().map(|zip| zip.size), Outcome::Ran);
        Ok(module)
    }

    fn toolchains(
        &self,
        lock: &Lock,
        wanted: &Requirements,
        lacks: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let locked = &lock.toolchain;
        if lacks(&locked.go.sha256) {
            self.go_toolchain(&locked.go.version)?;
        }
        if let (Some(rust), Some(wish)) = (&locked.rust, &wanted.rust_toolchain)
            && lacks(&rust.sha256)
        {
            let step = self.report.step("toolchain rust");
            let digest = rust::toolchain(self.store, wish, &step)?;
            step.done(&format!("rust {}", rust.version), Some(digest.size()), Outcome::Ran);
        }
        Ok(())
    }

    /// Checks the digests of the *lock*, in the same way for every client: clients only check what
    /// they know.
    fn all_there(&self, missing: &[Source]) -> Result<()> {
        match missing.iter().find(|source| self.store.find(&source.digest).is_none()) {
            None => Ok(()),
            Some(source) => Err(Error::digest(format!(
                "{} is not what the lock says",
                source.name
            ))
            .cause(format!("nothing that was fetched has the digest sha256:{}", source.digest))
            .hint("see where it comes from; if the change is meant, run `cargo osbuild update`")),
        }
    }

    fn scratch(&self) -> Result<Scratch> {
        self.store.scratch()
    }
}

/// The architecture of a package; `all` counts as that of the build machine.
fn plan_architecture(package: &DebianPackage) -> Architecture {
    Architecture::named(&package.architecture).unwrap_or(Architecture::Amd64)
}

fn unreachable_sources(missing: &[Source]) -> Error {
    let names = missing.iter().map(|source| source.name.as_str()).collect::<BTreeSet<_>>();
    let some = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    Error::lock(format!(
        "{} sources are not in the store, and `--offline` forbids fetching them",
        missing.len()
    ))
    .cause(format!("among them {some}"))
    .hint("run it once without `--offline`, or give `--sources DIR`")
}

/// Checks a digest against the lock.
fn expect(found: Digest, wanted: &str, name: &str) -> Result<()> {
    if found.hex() == wanted {
        return Ok(());
    }
    Err(Error::digest(format!("`{name}` is not what the lock says"))
        .cause(format!("the lock has sha256:{wanted}"))
        .cause(format!("what was fetched has sha256:{}", found.hex()))
        .hint("a mirror may serve other bytes; if the change is meant, run `cargo osbuild update`"))
}

fn blob(digest: &Digest) -> Blob {
    Blob { sha256: digest.hex(), size: digest.size() }
}
