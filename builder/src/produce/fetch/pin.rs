//! Makes a lock: keeps the valid pins of the previous lock, resolves the rest with each ecosystem's
//! client, fetches them, and records their digests.

use super::debian::{Archive, Part};
use super::{Fetcher, SourceOrigin, crates, rust};
use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::plan::{
    AnyPlan, Crate, CrateSize, CratesLock, DebianPackage, DebianRequirement, GoLock, GoRequirement,
    GoToolchain, Lock, Packages, PreviousLock, Requirements, RustRequirement, RustToolchain,
    Toolchains,
};
use crate::report::Outcome;

impl Fetcher<'_> {
    /// Pins every requirement of `plan`, keeping the pins of `held` that are still valid. `epoch`
    /// is the time of a changed lock in seconds since 1970. Fetched sources are in the store
    /// afterwards.
    ///
    /// # Errors
    /// An archive lacks a requirement, or registries are needed but must not be used or cannot be
    /// reached.
    pub fn pin(&self, plan: &dyn AnyPlan, held: &PreviousLock, epoch: u64) -> Result<Lock> {
        let required = plan.requirements();
        let debian = Debian { fetcher: self, held };
        let go = required
            .go_modules
            .iter()
            .map(|requirement| self.pin_go(held, requirement, &required.go_toolchain));
        let lock = Lock {
            version: Lock::VERSION,
            recipe: plan.recipe().to_owned(),
            epoch,
            requirements: required.digest(),
            kernel_source: required
                .kernel_source
                .as_ref()
                .map(|requirement| debian.one(requirement))
                .transpose()?,
            stub: required.stub.as_ref().map(|requirement| debian.one(requirement)).transpose()?,
            sandbox: debian.closure(&required.sandbox)?,
            launcher: debian.launcher(&required.launcher)?,
            pahole: debian.closure(&required.pahole)?,
            cross: debian.list(&required.cross)?,
            files: debian.list(&required.files)?,
            go: go.collect::<Result<_>>()?,
            toolchain: Toolchains {
                go: self.pin_go_toolchain(held, &required.go_toolchain)?,
                rust: required
                    .rust_toolchain
                    .as_ref()
                    .map(|requirement| self.pin_rust_toolchain(held, requirement))
                    .transpose()?,
            },
            crates: self.pin_crates(held, required)?,
        };
        Ok(held.keep_epoch(lock))
    }

    fn pin_go(
        &self,
        held: &PreviousLock,
        requirement: &GoRequirement,
        toolchain: &str,
    ) -> Result<GoLock> {
        if let Some(kept) = held.go(requirement, toolchain) {
            return Ok(kept.clone());
        }
        self.check_online(&requirement.component)?;
        let found = self.go(requirement, held.go_mod(requirement), toolchain)?;
        let (component, module, version) = (
            requirement.component.clone(),
            requirement.module.clone(),
            requirement.version.clone(),
        );
        Ok(GoLock {
            component,
            module,
            version,
            asked: requirement.digest(toolchain),
            go_mod: found.go_mod,
            modules: found.modules,
        })
    }

    fn pin_go_toolchain(&self, held: &PreviousLock, version: &str) -> Result<GoToolchain> {
        if let Some(kept) = held.go_toolchain(version) {
            return Ok(kept.clone());
        }
        self.check_online("Go toolchain")?;
        let module = self.go_toolchain(version)?;
        let (Some(sum), Some(zip)) = (module.sum, module.zip) else {
            return Err(Error::build(format!(
                "the Go module proxy gave no zip file of toolchain {version}"
            )));
        };
        Ok(GoToolchain { version: version.to_owned(), sum, sha256: zip.sha256, size: zip.size })
    }

    fn pin_rust_toolchain(
        &self,
        held: &PreviousLock,
        requirement: &RustRequirement,
    ) -> Result<RustToolchain> {
        if let Some(kept) = held.rust_toolchain(requirement) {
            return Ok(kept.clone());
        }
        self.check_online("Rust toolchain")?;
        let step = self.report.step("toolchain rust");
        let digest = rust::toolchain(self.store, requirement, &step)?;
        step.done(&format!("rust {}", requirement.version), Some(digest.size()), Outcome::Ran);
        let RustRequirement { version, targets } = requirement.clone();
        Ok(RustToolchain { version, targets, sha256: digest.hex(), size: digest.size() })
    }

    /// Keeps the known sizes of crates. Others are those of archives that are on this machine, or
    /// are downloaded. If a crate has no archive, as one that cargo takes from a folder, the lock
    /// has no sizes.
    fn pin_crates(&self, held: &PreviousLock, required: &Requirements) -> Result<CratesLock> {
        let crates = &required.crates;
        let known = |krate: &Crate| {
            // A truncated file has another size than the crate, so its content is checked first.
            let is_whole = |digest: &Digest| self.store.path(digest).is_ok();
            let stored =
                || self.store.find(&krate.sha256).filter(is_whole).map(|digest| digest.size());
            held.crate_size(krate).or_else(stored)
        };
        let mut unknown = crates.iter().filter(|krate| known(krate).is_none()).collect::<Vec<_>>();
        crates::keep_cached(self.store, &mut unknown)?;
        if let Some(first) = unknown.first() {
            self.check_online(&format!("crate {} {}", first.name, first.version))?;
            let step = self.report.step("crates");
            crates::download(self.store, self.project, &unknown, &step)?;
            step.done(&format!("{} crates", unknown.len()), None, Outcome::Ran);
        }
        let size = |krate: &Crate| {
            let (name, version) = (krate.name.clone(), krate.version.clone());
            Some(CrateSize { name, version, size: known(krate)? })
        };
        let sizes: Option<_> = crates.iter().map(size).collect();
        Ok(CratesLock { digest: required.crates_digest(), sizes: sizes.unwrap_or_default() })
    }

    /// Refuses to use the registries if the user forbids it.
    fn check_online(&self, what: &str) -> Result<()> {
        if matches!(self.origin, SourceOrigin::Registries) {
            return Ok(());
        }
        let error =
            Error::usage(format!("`{what}` is not locked, and `--offline` forbids resolving it"));
        Err(error.cause("a new pin needs the registries").hint("run it again without `--offline`"))
    }
}

/// Pins Debian packages. A part of the archive is opened only if a pin of it is missing.
struct Debian<'a> {
    fetcher: &'a Fetcher<'a>,
    held: &'a PreviousLock,
}

impl Debian<'_> {
    fn one(&self, requirement: &DebianRequirement) -> Result<DebianPackage> {
        match self.held.package(requirement) {
            Some(kept) => Ok(kept.clone()),
            None => {
                let found = self.archive(requirement)?.newest(&[requirement.asked()])?;
                Ok(found.into_iter().next().expect("one package was requested and found"))
            }
        }
    }

    fn list(&self, requirements: &[DebianRequirement]) -> Result<Packages> {
        let packages =
            requirements.iter().map(|requirement| self.one(requirement)).collect::<Result<_>>()?;
        Ok(Packages { asked: Vec::new(), packages })
    }

    fn closure(&self, requirements: &[DebianRequirement]) -> Result<Packages> {
        if let Some(kept) = self.held.closure(requirements) {
            return Ok(kept.clone());
        }
        let Some(first) = requirements.first() else { return Ok(Packages::default()) };
        let asked: Vec<String> = requirements.iter().map(DebianRequirement::asked).collect();
        let folder = self.fetcher.scratch()?;
        let packages =
            self.archive(first)?.closure(&asked, self.held.preferred(), folder.path())?;
        Ok(Packages { asked, packages })
    }

    /// The closure of the launcher's packages. Without registries, an older lock remains without
    /// them: nothing is built from them.
    fn launcher(&self, requirements: &[DebianRequirement]) -> Result<Packages> {
        let is_online = matches!(self.fetcher.origin, SourceOrigin::Registries);
        match self.held.closure(requirements) {
            None if !is_online => Ok(Packages::default()),
            _ => self.closure(requirements),
        }
    }

    /// The part of the archive with a package. No other part is open at the same time, so two
    /// builds never wait for each other.
    fn archive(&self, requirement: &DebianRequirement) -> Result<Archive> {
        self.fetcher.check_online(&requirement.package)?;
        let part = Part::of(&requirement.architecture, requirement.release);
        let step = self.fetcher.report.step("lists");
        let archive = Archive::open(self.fetcher.store, part, &step)?;
        if self.fetcher.lists.are_old(part) {
            archive.update(&step).inspect_err(|_| self.fetcher.lists.failed(part))?;
            step.done("package lists", None, Outcome::Ran);
        }
        Ok(archive)
    }
}
