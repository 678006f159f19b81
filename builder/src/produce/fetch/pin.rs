//! Makes a lock: keeps what an earlier one still pins, asks each ecosystem for the rest, fetches
//! that, and writes down its digests.

use super::{Fetcher, SourceOrigin, debian, rust};
use crate::error::{Error, Result};
use crate::plan::{
    AnyPlan, Architecture, CratesLock, DebianPackage, DebianRequirement, GoLock, GoRequirement,
    GoToolchain, Lock, Packages, PreviousLock, RustRequirement, RustToolchain, Toolchains,
};
use crate::report::Outcome;
use std::cell::OnceCell;

impl Fetcher<'_> {
    /// Pins all that `plan` wants, with what is `held` where it fits. `epoch` is the time, in
    /// seconds since 1970, of a lock that has something new; what had to be fetched for it is in
    /// the store afterwards.
    ///
    /// # Errors
    /// An archive lacks what is wanted, or there is something to ask for and the registries must
    /// not be used or cannot be reached.
    pub fn pin(&self, plan: &dyn AnyPlan, held: &PreviousLock, epoch: u64) -> Result<Lock> {
        let wanted = plan.requirements();
        let debian =
            Debian { fetcher: self, held, node: plan.architecture(), archives: OnceCell::new() };
        let go = wanted.go_modules.iter().map(|wish| self.pin_go(held, wish, &wanted.go_toolchain));
        let lock = Lock {
            version: Lock::VERSION,
            recipe: plan.recipe().to_owned(),
            epoch,
            requirements: wanted.digest(),
            suite: wanted.suite().map(str::to_owned),
            kernel_source: wanted
                .kernel_source
                .as_ref()
                .map(|wish| debian.one(wish))
                .transpose()?,
            stub: wanted.stub.as_ref().map(|wish| debian.one(wish)).transpose()?,
            sandbox: debian.closure(&wanted.sandbox)?,
            cross: debian.list(&wanted.cross)?,
            files: debian.list(&wanted.files)?,
            go: go.collect::<Result<_>>()?,
            toolchain: Toolchains {
                go: self.pin_go_toolchain(held, &wanted.go_toolchain)?,
                rust: wanted
                    .rust_toolchain
                    .as_ref()
                    .map(|wish| self.pin_rust_toolchain(held, wish))
                    .transpose()?,
            },
            crates: CratesLock { digest: wanted.crates_digest() },
        };
        Ok(held.keep_epoch(lock))
    }

    fn pin_go(&self, held: &PreviousLock, wish: &GoRequirement, toolchain: &str) -> Result<GoLock> {
        if let Some(kept) = held.go(wish, toolchain) {
            return Ok(kept.clone());
        }
        self.must_ask(&wish.component)?;
        let found = self.go(wish, held.go_mod(wish), toolchain)?;
        let (component, module, version) =
            (wish.component.clone(), wish.module.clone(), wish.version.clone());
        Ok(GoLock {
            component,
            module,
            version,
            asked: wish.digest(toolchain),
            go_mod: found.go_mod,
            modules: found.modules,
        })
    }

    fn pin_go_toolchain(&self, held: &PreviousLock, version: &str) -> Result<GoToolchain> {
        if let Some(kept) = held.go_toolchain(version) {
            return Ok(kept.clone());
        }
        self.must_ask("Go toolchain")?;
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
        wish: &RustRequirement,
    ) -> Result<RustToolchain> {
        if let Some(kept) = held.rust_toolchain(wish) {
            return Ok(kept.clone());
        }
        self.must_ask("Rust toolchain")?;
        let step = self.report.step("toolchain rust");
        let digest = rust::toolchain(self.store, wish, &step)?;
        step.done(&format!("rust {}", wish.version), Some(digest.size()), Outcome::Ran);
        let RustRequirement { version, targets } = wish.clone();
        Ok(RustToolchain { version, targets, sha256: digest.hex(), size: digest.size() })
    }

    /// Refuses to ask the registries where the user said so.
    fn must_ask(&self, what: &str) -> Result<()> {
        if matches!(self.origin, SourceOrigin::Registries) {
            return Ok(());
        }
        let error = Error::usage(format!(
            "what is wanted of `{what}` is not locked, and `--offline` forbids to ask for it"
        ));
        Err(error
            .cause("a lock is made from what the registries have now")
            .hint("run it again without `--offline`"))
    }
}

/// Debian's part of a lock. The archive is asked only when something is not held.
struct Debian<'a> {
    fetcher: &'a Fetcher<'a>,
    held: &'a PreviousLock,
    node: Architecture,
    archives: OnceCell<Vec<(Architecture, debian::Archive)>>,
}

impl Debian<'_> {
    fn one(&self, wish: &DebianRequirement) -> Result<DebianPackage> {
        match self.held.package(wish) {
            Some(kept) => Ok(kept.clone()),
            None => {
                let found = self.archive(wish)?.newest(&[wish.asked()])?;
                Ok(found.into_iter().next().expect("one package was asked for and found"))
            }
        }
    }

    fn list(&self, wishes: &[DebianRequirement]) -> Result<Packages> {
        let packages = wishes.iter().map(|wish| self.one(wish)).collect::<Result<_>>()?;
        Ok(Packages { asked: Vec::new(), packages })
    }

    fn closure(&self, wishes: &[DebianRequirement]) -> Result<Packages> {
        if let Some(kept) = self.held.closure(wishes) {
            return Ok(kept.clone());
        }
        let Some(first) = wishes.first() else { return Ok(Packages::default()) };
        let asked: Vec<String> = wishes.iter().map(DebianRequirement::asked).collect();
        let folder = self.fetcher.scratch()?;
        let packages =
            self.archive(first)?.closure(&asked, self.held.preferred(), folder.path())?;
        Ok(Packages { asked, packages })
    }

    fn archive(&self, wish: &DebianRequirement) -> Result<&debian::Archive> {
        let architecture = Architecture::named(&wish.architecture).unwrap_or(Architecture::Amd64);
        let archives = match self.archives.get() {
            Some(archives) => archives,
            None => {
                let opened = self.open(&wish.package)?;
                self.archives.get_or_init(|| opened)
            }
        };
        let found =
            archives.iter().find(|(ours, _)| *ours == architecture).map(|(_, archive)| archive);
        Ok(found.expect("a plan names the build machine's architecture and the node's"))
    }

    fn open(&self, what: &str) -> Result<Vec<(Architecture, debian::Archive)>> {
        self.fetcher.must_ask(what)?;
        let step = self.fetcher.report.step("lists");
        let mut architectures = vec![Architecture::Amd64, self.node];
        architectures.dedup();
        let archives = architectures.into_iter().map(|architecture| {
            let archive = debian::Archive::open(self.fetcher.store, architecture, &step)?;
            archive.update(&step)?;
            Ok((architecture, archive))
        });
        let archives = archives.collect::<Result<_>>()?;
        step.done("what the archive has", None, Outcome::Ran);
        Ok(archives)
    }
}
