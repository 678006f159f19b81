//! The entries of an earlier lock that still meet the requirements. Only the others are resolved
//! anew.

use super::{
    Crate, DebianPackage, DebianRequirement, GoLock, GoRequirement, GoToolchain, Lock, Packages,
    RustRequirement, RustToolchain,
};
use std::collections::BTreeSet;

/// The entries of earlier locks that can be kept.
#[derive(Clone, Debug, Default)]
pub struct PreviousLock {
    /// The recipe's own lock.
    own: Option<Lock>,
    /// Debian packages of `own` to update to what the archive has now.
    released: BTreeSet<String>,
    /// New locks of other recipes.
    fresh: Vec<Lock>,
}

impl PreviousLock {
    /// All entries of the recipe's own lock.
    pub fn of(own: Option<Lock>) -> Self {
        PreviousLock { own, ..PreviousLock::default() }
    }

    /// Stops keeping these Debian packages, for every architecture.
    pub fn release<'n>(&mut self, packages: impl IntoIterator<Item = &'n str>) {
        self.released.extend(packages.into_iter().map(str::to_owned));
    }

    /// Adds the new lock of another recipe, to be used where the own lock has no entry.
    pub fn add(&mut self, fresh: Lock) {
        self.fresh.push(fresh);
    }

    /// The locked package that meets a requirement, without its dependencies.
    pub fn package(&self, required: &DebianRequirement) -> Option<&DebianPackage> {
        let pins = |package: &&DebianPackage| {
            let version =
                required.version.as_ref().is_none_or(|version| *version == package.version);
            let architecture =
                package.architecture == required.architecture || package.architecture == "all";
            package.package == required.package && version && architecture
        };
        self.find(|lock, is_kept| {
            let lists = [&lock.cross.packages, &lock.files.packages].into_iter().flatten();
            let mut packages = [&lock.kernel_source, &lock.stub].into_iter().flatten().chain(lists);
            packages.find(pins).filter(|package| is_kept(package))
        })
    }

    /// The locked packages that meet requirements, with all their dependencies.
    pub fn closure(&self, required: &[DebianRequirement]) -> Option<&Packages> {
        let asked: Vec<String> = required.iter().map(DebianRequirement::asked).collect();
        self.find(|lock, is_kept| {
            let mut lists = [&lock.sandbox, &lock.launcher, &lock.pahole].into_iter();
            lists.find(|list| list.asked == asked && list.packages.iter().all(is_kept))
        })
    }

    /// The packages to leave unchanged when others of the same closure change.
    pub fn preferred(&self) -> impl Iterator<Item = &DebianPackage> {
        let lists = self.own.iter().flat_map(|lock| [&lock.sandbox, &lock.launcher, &lock.pahole]);
        let packages = lists.flat_map(|list| &list.packages);
        packages.filter(|package| !self.released.contains(&package.package))
    }

    /// The locked modules that meet a requirement, for a version of the toolchain.
    pub fn go(&self, required: &GoRequirement, toolchain: &str) -> Option<&GoLock> {
        let asked = required.digest(toolchain);
        self.find(|lock, _| {
            lock.go.iter().find(|go| {
                go.component == required.component
                    && go.version == required.version
                    && go.asked == asked
            })
        })
    }

    /// The go.mod of the module that requires the same version of a module. It records how that
    /// module's requirements were resolved.
    pub fn go_mod(&self, required: &GoRequirement) -> Option<&str> {
        self.find(|lock, _| {
            lock.go.iter().find(|go| go.module == required.module && go.version == required.version)
        })?
        .go_mod
        .as_deref()
    }

    /// The locked Go toolchain of this version.
    pub fn go_toolchain(&self, version: &str) -> Option<&GoToolchain> {
        self.find(|lock, _| Some(&lock.toolchain.go).filter(|go| go.version == version))
    }

    /// The locked Rust toolchain that meets a requirement.
    pub fn rust_toolchain(&self, required: &RustRequirement) -> Option<&RustToolchain> {
        self.find(|lock, _| {
            lock.toolchain
                .rust
                .as_ref()
                .filter(|rust| rust.version == required.version && rust.targets == required.targets)
        })
    }

    /// The size of a crate's archive in bytes.
    pub fn crate_size(&self, krate: &Crate) -> Option<u64> {
        let mut locks = self.own.iter().chain(&self.fresh);
        locks.find_map(|lock| lock.crates.size(krate))
    }

    /// A new lock, with the old one's epoch if no source of a product differs. Crates do not count:
    /// they change with every change of our own programs.
    pub fn keep_epoch(&self, lock: Lock) -> Lock {
        let Some(own) = &self.own else { return lock };
        let [before, after] = [own, &lock].map(|lock| {
            let without = Lock { launcher: Packages::default(), ..lock.clone() };
            without.sources(&[])
        });
        let epoch = if after == before { own.epoch } else { lock.epoch };
        Lock { epoch, ..lock }
    }

    /// Searches the own lock, without its released packages, and then the fresh ones.
    fn find<'s, T>(
        &'s self,
        look: impl Fn(&'s Lock, &dyn Fn(&DebianPackage) -> bool) -> Option<&'s T>,
    ) -> Option<&'s T> {
        let is_kept = |package: &DebianPackage| !self.released.contains(&package.package);
        let own = self.own.as_ref().and_then(|lock| look(lock, &is_kept));
        own.or_else(|| self.fresh.iter().find_map(|lock| look(lock, &|_| true)))
    }
}
