//! What an earlier lock still has of what is wanted now, so that only the rest is asked for.

use super::{
    DebianPackage, DebianWish, GoLock, GoToolchain, GoWish, Lock, Packages, RustToolchain, RustWish,
};
use std::collections::BTreeSet;

/// Locked entries that may be kept.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The recipe's own lock.
    own: Option<Lock>,
    /// Debian packages that `own` does not hold: they move to what the archive has now.
    freed: BTreeSet<String>,
    /// Locks of other recipes that were made just now.
    fresh: Vec<Lock>,
}

impl Held {
    /// Everything in the recipe's own lock.
    pub fn by(own: Option<Lock>) -> Self {
        Held { own, ..Held::default() }
    }

    /// Lets Debian packages go, for every architecture.
    pub fn free<'n>(&mut self, packages: impl IntoIterator<Item = &'n str>) {
        self.freed.extend(packages.into_iter().map(str::to_owned));
    }

    /// Takes what another recipe's lock has just been given, where the own one has nothing.
    pub fn share(&mut self, fresh: Lock) {
        self.fresh.push(fresh);
    }

    /// The package that pins a wish for one without what it depends on.
    pub fn package(&self, wish: &DebianWish) -> Option<&DebianPackage> {
        let pins = |package: &&DebianPackage| {
            let version = wish.version.as_ref().is_none_or(|version| *version == package.version);
            let architecture =
                package.architecture == wish.architecture || package.architecture == "all";
            package.package == wish.package && version && architecture
        };
        self.find(|lock, is_held| {
            let lists = [&lock.cross.packages, &lock.files.packages].into_iter().flatten();
            let mut packages = [&lock.kernel_source, &lock.stub].into_iter().flatten().chain(lists);
            packages.find(pins).filter(|package| lock.suite == wish.suite && is_held(package))
        })
    }

    /// The packages that pin wishes with all that they depend on.
    pub fn closure(&self, wishes: &[DebianWish]) -> Option<&Packages> {
        let asked: Vec<String> = wishes.iter().map(DebianWish::asked).collect();
        self.find(|lock, is_held| {
            Some(&lock.sandbox)
                .filter(|list| list.asked == asked && list.packages.iter().all(is_held))
        })
    }

    /// The packages that should stay as they are even when others of the same closure move.
    pub fn preferred(&self) -> impl Iterator<Item = &DebianPackage> {
        let packages = self.own.iter().flat_map(|lock| &lock.sandbox.packages);
        packages.filter(|package| !self.freed.contains(&package.package))
    }

    /// The modules that pin a wish which `toolchain` compiles.
    pub fn go(&self, wish: &GoWish, toolchain: &str) -> Option<&GoLock> {
        let asked = wish.digest(toolchain);
        self.find(|lock, _| {
            lock.go.iter().find(|go| {
                go.component == wish.component && go.version == wish.version && go.asked == asked
            })
        })
    }

    /// The go.mod around the same version of a module, which says how its requirements were
    /// resolved.
    pub fn go_mod(&self, wish: &GoWish) -> Option<&str> {
        self.find(|lock, _| {
            lock.go.iter().find(|go| go.module == wish.module && go.version == wish.version)
        })?
        .go_mod
        .as_deref()
    }

    /// The Go toolchain of this version.
    pub fn go_toolchain(&self, version: &str) -> Option<&GoToolchain> {
        self.find(|lock, _| Some(&lock.toolchain.go).filter(|go| go.version == version))
    }

    /// The Rust toolchain that pins a wish.
    pub fn rust_toolchain(&self, wish: &RustWish) -> Option<&RustToolchain> {
        self.find(|lock, _| {
            lock.toolchain
                .rust
                .as_ref()
                .filter(|rust| rust.version == wish.version && rust.targets == wish.targets)
        })
    }

    /// A new lock with the time of the old one, if nothing that can be fetched is different. Crates
    /// are no reason for another time: they change with each change of our own programs.
    pub fn keep_epoch(&self, lock: Lock) -> Lock {
        let Some(own) = &self.own else { return lock };
        let epoch = if lock.sources(&[]) == own.sources(&[]) { own.epoch } else { lock.epoch };
        Lock { epoch, ..lock }
    }

    /// Looks into the own lock, where packages may have been let go, and then into those that are
    /// fresh.
    fn find<'s, T>(
        &'s self,
        look: impl Fn(&'s Lock, &dyn Fn(&DebianPackage) -> bool) -> Option<&'s T>,
    ) -> Option<&'s T> {
        let is_held = |package: &DebianPackage| !self.freed.contains(&package.package);
        let own = self.own.as_ref().and_then(|lock| look(lock, &is_held));
        own.or_else(|| self.fresh.iter().find_map(|lock| look(lock, &|_| true)))
    }
}
