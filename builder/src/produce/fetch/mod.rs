//! Fetches locked sources into the store, from a folder of exported sources or with each
//! ecosystem's own client.

mod client;
mod crates;
pub mod debian;
pub mod git;
mod go;
mod gone;
mod mirrors;
mod pin;
mod proxy;
mod releases;
mod rust;

pub use go::{escaped, wrapper_program};
pub use mirrors::check_mirrors;

use super::exported::Exported;
use crate::engine::digest::Digest;
use crate::engine::remote::Remote;
use crate::engine::store::{Scratch, Store};
use crate::engine::toolchain;
use crate::error::{Error, Result};
use crate::plan::{
    Blob, Crate, DebianPackage, GoModule, GoRequirement, Lock, Locked, Plan, Product, Requirements,
    Source, SourceKind,
};
use crate::report::{Outcome, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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

/// Fetches the locked sources of a plan.
#[derive(Clone)]
pub struct Fetcher<'a> {
    /// The store that gets the sources.
    pub store: &'a Store,
    /// The progress report.
    pub report: &'a Report,
    /// The root of the project, for `cargo fetch`.
    pub project: &'a Path,
    /// The origin of sources that the store lacks.
    pub origin: SourceOrigin,
    /// The shared cache, which is asked before registries.
    pub remote: Option<Arc<Remote>>,
    /// The lists of Debian's packages that this command has fetched.
    pub lists: Lists,
}

/// The parts of the archive whose lists of packages are those of this command. Lists that are a few
/// minutes old need not be fetched again for each step that needs a package.
#[derive(Clone, Debug, Default)]
pub struct Lists(Arc<Mutex<BTreeSet<debian::Part>>>);

impl Lists {
    /// Whether the lists of a part are still to be fetched. The caller fetches them.
    fn are_old(&self, part: debian::Part) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(part)
    }

    fn failed(&self, part: debian::Part) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&part);
    }
}

impl Fetcher<'_> {
    /// Fetches every source of `plan` that the store lacks.
    ///
    /// # Errors
    /// A source is gone, cannot be reached, or does not match the lock.
    pub fn fetch<P: Product<Locked>>(&self, plan: &Plan<Locked, P>) -> Result<()> {
        self.fetch_those(plan, &|_| true)
    }

    /// Fetches those sources of `plan` that are `wanted` and that the store lacks. Errors are those
    /// of [`Fetcher::fetch`].
    pub fn fetch_those<P: Product<Locked>>(
        &self,
        plan: &Plan<Locked, P>,
        wanted: &dyn Fn(&Source) -> bool,
    ) -> Result<()> {
        let (lock, required) = (plan.lock.get(), &plan.requirements);
        let missing = lock
            .sources(&required.crates)
            .into_iter()
            .filter(|source| wanted(source) && !self.is_there(source))
            .collect::<Vec<_>>();
        if missing.is_empty() {
            return Ok(());
        }
        match &self.origin {
            SourceOrigin::Registries => {
                let missing = self.fetch_from_cache(missing)?;
                self.fetch_from_registries(plan, &missing)
            }
            SourceOrigin::Exported(folder) => self.copy_from_folder(folder, &missing),
            SourceOrigin::Store => Err(unreachable_sources(&missing)),
        }
    }

    /// Fetches what the shared cache has, and returns the rest. Older locks have no sizes of
    /// crates, without which a cache cannot be asked for them.
    fn fetch_from_cache(&self, missing: Vec<Source>) -> Result<Vec<Source>> {
        let Some(remote) = &self.remote else { return Ok(missing) };
        let digest = |source: &Source| Digest::parse(&source.digest, source.size?);
        let sized = missing.iter().filter_map(digest).collect::<Vec<_>>();
        let step = self.report.step("sources");
        let taken = remote.take_sources(self.store, &sized)?;
        let rest = missing.into_iter().filter(|source| !self.is_there(source)).collect();
        if taken > 0 {
            let bytes = sized.iter().filter(|source| self.store.contains(source)).map(Digest::size);
            step.done(&format!("{taken} sources"), Some(bytes.sum()), Outcome::Fetched);
        }
        Ok(rest)
    }

    fn copy_from_folder(&self, folder: &Path, missing: &[Source]) -> Result<()> {
        let step = self.report.step("sources");
        let exported = Exported::at(folder);
        for source in missing {
            step.doing(source.name.clone());
            exported.take(self.store, &source.digest, &source.name)?;
        }
        step.done(&format!("{} sources", missing.len()), None, Outcome::Ran);
        Ok(())
    }

    fn fetch_from_registries<P: Product<Locked>>(
        &self,
        plan: &Plan<Locked, P>,
        missing: &[Source],
    ) -> Result<()> {
        let (lock, required) = (plan.lock.get(), &plan.requirements);
        for (part, packages) in in_parts(missing) {
            self.debian(part, &packages)?;
        }
        let lacks = |digest: &str| missing.iter().any(|source| source.digest == digest);
        for component in plan.product.go_components() {
            let blobs = component
                .lock
                .modules
                .iter()
                .flat_map(|module| module.zip.iter().chain(&module.go_mod));
            if blobs.map(|blob| &blob.sha256).any(|digest| lacks(digest)) {
                let requirement = GoRequirement::of(component, plan.architecture);
                self.go(&requirement, component.lock.go_mod.as_deref(), &required.go_toolchain)?;
            }
        }
        self.toolchains(lock, required, lacks)?;
        let crates = required.crates.iter().filter(|krate| lacks(&krate.sha256));
        self.crates(&crates.collect::<Vec<_>>())?;
        self.all_there(missing)
    }

    /// Fetches these crates, if there are any.
    fn crates(&self, crates: &[&Crate]) -> Result<()> {
        if crates.is_empty() {
            return Ok(());
        }
        let step = self.report.step("crates");
        crates::fetch(self.store, self.project, crates, &step)?;
        step.done(&format!("{} crates", crates.len()), None, Outcome::Ran);
        Ok(())
    }

    fn debian(&self, part: debian::Part, packages: &[&DebianPackage]) -> Result<()> {
        let step = self.report.step(format!("packages {}", part.architecture));
        let archive = debian::Archive::open(self.store, part, &step)?;
        // Another build may have fetched the same packages while this one waited.
        let packages: Vec<_> = packages
            .iter()
            .copied()
            .filter(|package| !is_stored(self.store, &package.sha256, Some(package.size)))
            .collect();
        if packages.is_empty() {
            return Ok(());
        }
        if self.lists.are_old(part) {
            archive.update(&step).inspect_err(|_| self.lists.failed(part))?;
        }
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
        requirement: &GoRequirement,
        go_mod: Option<&str>,
        toolchain: &str,
    ) -> Result<go::Modules> {
        let step = self.report.step(format!("modules {}", requirement.component));
        let found =
            go::modules(self.store, self.scratch()?.path(), requirement, go_mod, toolchain, &step);
        let found = found.map_err(|error| self.module_gone(error, requirement, &step))?;
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
        required: &Requirements,
        lacks: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let locked = &lock.toolchain;
        if lacks(&locked.go.sha256) {
            self.go_toolchain(&locked.go.version)?;
        }
        if let (Some(rust), Some(requirement)) = (&locked.rust, &required.rust_toolchain)
            && lacks(&rust.sha256)
        {
            let step = self.report.step("toolchain rust");
            let digest = rust::toolchain(self.store, requirement, &step)?;
            step.done(&format!("rust {}", rust.version), Some(digest.size()), Outcome::Ran);
        }
        Ok(())
    }

    /// Checks that the store has every source. Clients check digests of their own, not those of the
    /// lock.
    fn all_there(&self, missing: &[Source]) -> Result<()> {
        let Some(source) = missing.iter().find(|source| !self.is_there(source)) else {
            return Ok(());
        };
        let size = source.size.map_or_else(String::new, |size| format!(" and {size} bytes"));
        Err(Error::digest(format!("{} does not match the lock", source.name))
            .cause(format!("no fetched file has the digest sha256:{}{size}", source.digest))
            .hint("check its origin; if the change is intended, run `cargo osbuild update`"))
    }

    /// Whether the store has a source, or the unpacked toolchain that it can be made from. Another
    /// command may unpack the toolchain, and remove its file, at any time.
    fn is_there(&self, source: &Source) -> bool {
        let is_unpacked = || match source.kind {
            SourceKind::RustToolchain { .. } => toolchain::has_rust(self.store, &source.digest),
            _ => false,
        };
        is_stored(self.store, &source.digest, source.size) || is_unpacked()
    }

    fn scratch(&self) -> Result<Scratch> {
        self.store.scratch()
    }
}

/// Whether the store has the file with this SHA-256 in hexadecimal. After a power cut a file can be
/// truncated, so one of another size than the lock has counts as missing. Its content is checked
/// when it is read, because this must stay cheap.
fn is_stored(store: &Store, sha256: &str, size: Option<u64>) -> bool {
    match size {
        Some(size) => Digest::parse(sha256, size).is_some_and(|digest| store.contains(&digest)),
        None => store.find(sha256).is_some(),
    }
}

/// The Debian packages among sources, by the part of the archive that has them.
fn in_parts(sources: &[Source]) -> BTreeMap<debian::Part, Vec<&DebianPackage>> {
    let mut parts = BTreeMap::<_, Vec<_>>::new();
    for source in sources {
        if let SourceKind::Debian(package) = &source.kind {
            let part = debian::Part::of(&package.architecture, package.release);
            parts.entry(part).or_default().push(package);
        }
    }
    parts
}

fn unreachable_sources(missing: &[Source]) -> Error {
    let names = missing.iter().map(|source| source.name.as_str()).collect::<BTreeSet<_>>();
    let some = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    Error::lock(format!(
        "{} sources are not in the store, and `--offline` forbids fetching them",
        missing.len()
    ))
    .cause(format!("among them: {some}"))
    .hint(
        "run it once without `--offline`, or import exported sources: `cargo osbuild sources \
         import DIR`",
    )
}

/// Checks a digest against the lock.
fn expect(found: Digest, locked: &str, name: &str) -> Result<()> {
    if found.hex() == locked {
        return Ok(());
    }
    Err(Error::digest(format!("`{name}` does not match the lock"))
        .cause(format!("the lock has sha256:{locked}"))
        .cause(format!("the fetched file has sha256:{}", found.hex()))
        .hint(
            "a mirror may serve other bytes; if the change is intended, run `cargo osbuild \
        update`",
        ))
}

fn blob(digest: &Digest) -> Blob {
    Blob { sha256: digest.hex(), size: digest.size() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Color, Verbosity};

    #[test]
    fn a_toolchain_that_another_command_unpacked_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let compiler = folder.path().join("rustc");
        std::fs::write(compiler, "a compiler").unwrap();
        let mut tar = Vec::new();
        toolchain::pack(folder.path(), &BTreeSet::from(["rustc".into()]), &mut tar).unwrap();
        let digest = store.put_bytes(&tar).unwrap();
        let source = Source {
            digest: digest.hex(),
            size: Some(digest.size()),
            name: "Rust 1".into(),
            kind: SourceKind::RustToolchain { version: "1".into(), targets: Vec::new() },
        };
        let fetcher = Fetcher {
            store: &store,
            report: &Report::new(Verbosity::Quiet, Color::Never),
            project: folder.path(),
            origin: SourceOrigin::Registries,
            remote: None,
            lists: Lists::default(),
        };
        toolchain::unpack_rust(&store, &source.digest).unwrap();
        assert!(!store.contains(&digest), "its tar file is removed");
        fetcher.all_there(std::slice::from_ref(&source)).unwrap();
        let other = Source { digest: "0".repeat(64), ..source };
        assert!(fetcher.all_there(&[other]).is_err());
    }
}
