//! Locks a plan: compares it with its lock, and puts each entry of the lock where it is used.

use super::{DebianPackage, DebianRequirement, GoLock, Lock, Requirements, RustToolchain};
use crate::error::{Error, Result};
use crate::plan::{Architecture, BUILD_MACHINE, GoComponent, Lockable, Locked, Plan, Unlocked};

impl<P: Lockable> Plan<Unlocked, P> {
    /// The plan with its lock, if the lock pins exactly what this plan requires.
    ///
    /// # Errors
    /// The lock belongs to another recipe or to an earlier state of this one, of kind
    /// [`crate::error::Kind::Lock`]. The causes are the differences.
    pub fn lock(self, lock: Lock) -> Result<Plan<Locked, P::Locked>> {
        let (recipe, path) = (&self.recipe, Lock::path(&self.recipe));
        if lock.recipe != *recipe {
            return Err(Error::lock(format!("`{path}` is the lock of `{}`", lock.recipe))
                .hint(relock(recipe)));
        }
        let differences = differences(&self.requirements, &lock);
        if !differences.is_empty() || lock.requirements != self.requirements.digest() {
            let error =
                Error::lock(format!("`{path}` is out of date: it does not match the recipe"));
            let error = differences.into_iter().fold(error, Error::cause);
            return Err(error.hint(relock(recipe)));
        }
        Ok(Plan {
            product: self.product.lock(&Pins { lock: &lock, architecture: self.architecture }),
            recipe: self.recipe,
            architecture: self.architecture,
            requirements: self.requirements,
            origins: self.origins,
            warnings: self.warnings,
            lock: Locked(lock),
        })
    }
}

/// The entries of a lock that has everything that a plan requires.
#[derive(Clone, Copy, Debug)]
pub struct Pins<'l> {
    lock: &'l Lock,
    /// That of the product.
    architecture: Architecture,
}

impl Pins<'_> {
    /// The modules of a Go component.
    pub(in crate::plan) fn modules(&self, component: &GoComponent) -> GoLock {
        let found = self.lock.go(&component.name, &component.module, &component.go_version());
        found.expect("the lock was compared with the requirements").clone()
    }

    /// The package with this name among those with files for the root or for images of pods.
    pub(in crate::plan) fn package(&self, name: &str) -> DebianPackage {
        self.package_for(name, self.architecture)
    }

    /// The package with this name among those with programs that make files of the root.
    pub(in crate::plan) fn program(&self, name: &str) -> DebianPackage {
        self.package_for(name, BUILD_MACHINE)
    }

    fn package_for(&self, name: &str, architecture: Architecture) -> DebianPackage {
        let fits = |package: &&DebianPackage| {
            package.package == name && is_for(package, architecture.debian())
        };
        let found = self.lock.files.packages.iter().find(fits);
        found.expect("the lock was compared with the requirements").clone()
    }
}

/// The entries that the lock of every node has, because [`Plan::lock`] compared it with the
/// requirements of a node.
impl Plan<Locked> {
    /// The package with the kernel's source.
    pub fn kernel_source(&self) -> &DebianPackage {
        self.lock.get().kernel_source.as_ref().expect("a node's lock has the kernel's source")
    }

    /// The package with systemd's UEFI stub.
    pub fn stub(&self) -> &DebianPackage {
        self.lock.get().stub.as_ref().expect("a node's lock has the stub")
    }

    /// The Rust toolchain.
    pub fn rust(&self) -> &RustToolchain {
        self.lock.get().toolchain.rust.as_ref().expect("a node's lock has the Rust toolchain")
    }
}

impl Lock {
    /// The modules of a component at a version.
    fn go(&self, component: &str, module: &str, version: &str) -> Option<&GoLock> {
        self.go_at_any_version(component, module).find(|go| go.version == version)
    }

    fn go_at_any_version(&self, component: &str, module: &str) -> impl Iterator<Item = &GoLock> {
        self.go.iter().filter(move |go| go.component == component && go.module == module)
    }
}

fn relock(recipe: &str) -> String {
    format!("run `cargo osbuild lock {recipe}`")
}

/// The version of an absent entry in messages.
const NOTHING: &str = "nothing";

/// The differences between requirements and a lock, one line each.
fn differences(required: &Requirements, lock: &Lock) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, required: &str, locked: &str| {
        if required != locked {
            differences.push(format!("{what}: `{required}` is required, `{locked}` is locked"));
        }
    };
    let single = [
        ("kernel source", &required.kernel_source, &lock.kernel_source),
        ("UEFI stub", &required.stub, &lock.stub),
    ];
    for (what, package, locked) in single {
        let locked = locked.as_ref().map_or(NOTHING, |package| &package.package);
        compare(what, package.as_ref().map_or(NOTHING, |package| &package.package), locked);
    }
    compare("Go toolchain", &required.go_toolchain, &lock.toolchain.go.version);
    let (rust, locked) = (&required.rust_toolchain, &lock.toolchain.rust);
    let [required_version, locked_version] =
        [rust.as_ref().map(|rust| &rust.version), locked.as_ref().map(|rust| &rust.version)]
            .map(|found| found.map_or(NOTHING, |v| v));
    compare("Rust toolchain", required_version, locked_version);
    let [required_targets, locked_targets] = [
        rust.as_ref().map(|rust| rust.targets.join(" ")),
        locked.as_ref().map(|rust| rust.targets.join(" ")),
    ]
    .map(Option::unwrap_or_default);
    compare("Rust targets", &required_targets, &locked_targets);
    for go in &required.go_modules {
        let exact = lock.go(&go.component, &go.module, &go.version);
        let locked = exact.or_else(|| lock.go_at_any_version(&go.component, &go.module).next());
        compare(&go.component, &go.version, locked.map_or(NOTHING, |go| &go.version));
    }
    if required.crates_digest() != lock.crates.digest {
        differences.push("crates: the node's part of `Cargo.lock` has changed".to_owned());
    }
    let lists = [
        (&required.sandbox, &lock.sandbox),
        (&required.pahole, &lock.pahole),
        (&required.cross, &lock.cross),
        (&required.files, &lock.files),
    ];
    for (required, locked) in lists {
        let is_locked =
            |required: &_| locked.packages.iter().any(|package| meets(package, required));
        differences.extend(
            required
                .iter()
                .filter(|each| !is_locked(each))
                .map(|each| format!("`{}` for {} is not locked", each.package, each.architecture)),
        );
    }
    differences
}

fn meets(package: &DebianPackage, required: &DebianRequirement) -> bool {
    package.package == required.package
        && package.release == required.release
        && is_for(package, &required.architecture)
}

/// Whether a machine of an architecture can use the package.
fn is_for(package: &DebianPackage, architecture: &str) -> bool {
    package.architecture == architecture || package.architecture == "all"
}
