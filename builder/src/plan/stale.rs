//! Whether a lock still pins what the plan wants.

use super::wanted::{DebianWish, Wanted};
use super::{DebianPackage, Lock, Locked, Plan, Resolution, RustToolchain, Unlocked};
use crate::error::{Error, Result};

impl<R: Resolution> Plan<Unlocked, R> {
    /// The plan with its lock, if the lock pins all that this plan wants and nothing else.
    ///
    /// # Errors
    /// The lock belongs to another recipe or to an earlier state of this one, of kind
    /// [`crate::error::Kind::Lock`]. The causes say what differs.
    pub fn lock(self, lock: Lock) -> Result<Plan<Locked, R>> {
        let (recipe, wanted) = (self.resolved.recipe(), self.resolved.wanted());
        let path = Lock::path(recipe);
        if lock.recipe != recipe {
            return Err(Error::lock(format!("`{path}` is the lock of `{}`", lock.recipe))
                .hint(relock(recipe)));
        }
        let moved = differences(wanted, &lock);
        if !moved.is_empty() || lock.wanted != wanted.digest() {
            let error =
                Error::lock(format!("`{path}` is out of date: the recipe asks for something else"));
            let error = moved.into_iter().fold(error, Error::cause);
            return Err(error.hint(relock(recipe)));
        }
        Ok(Plan { resolved: self.resolved, lock: Locked(lock) })
    }
}

/// What the lock of every node has: [`Plan::lock`] has compared it with what the plan wants.
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

fn relock(recipe: &str) -> String {
    format!("write it anew with `cargo osbuild lock {recipe}`")
}

/// What stands for what is not there.
const NOTHING: &str = "nothing";

/// What a lock has otherwise, a line each.
fn differences(wanted: &Wanted, lock: &Lock) -> Vec<String> {
    let mut moved = Vec::new();
    let mut compare = |what: &str, wanted: &str, locked: &str| {
        if wanted != locked {
            moved.push(format!("{what}: `{wanted}` is wanted, `{locked}` is locked"));
        }
    };
    let single = [
        ("kernel source", &wanted.kernel_source, &lock.kernel_source),
        ("UEFI stub", &wanted.stub, &lock.stub),
    ];
    for (what, wish, locked) in single {
        let locked = locked.as_ref().map_or(NOTHING, |package| &package.package);
        compare(what, wish.as_ref().map_or(NOTHING, |wish| &wish.package), locked);
    }
    compare("Go toolchain", &wanted.go_toolchain, &lock.toolchain.go.version);
    let (wish, locked) = (&wanted.rust_toolchain, &lock.toolchain.rust);
    let [wanted_version, locked_version] =
        [wish.as_ref().map(|wish| &wish.version), locked.as_ref().map(|rust| &rust.version)]
            .map(|found| found.map_or(NOTHING, |v| v));
    compare("Rust toolchain", wanted_version, locked_version);
    let [wanted_targets, locked_targets] = [
        wish.as_ref().map(|wish| wish.targets.join(" ")),
        locked.as_ref().map(|rust| rust.targets.join(" ")),
    ]
    .map(Option::unwrap_or_default);
    compare("Rust targets", &wanted_targets, &locked_targets);
    for wish in &wanted.go_modules {
        let locked =
            lock.go.iter().find(|go| go.component == wish.component && go.module == wish.module);
        compare(&wish.component, &wish.version, locked.map_or(NOTHING, |go| &go.version));
    }
    if wanted.crates_digest() != lock.crates.digest {
        moved.push("crates: the node's part of `Cargo.lock` has changed".to_owned());
    }
    let lists = [
        (&wanted.sandbox, &lock.sandbox),
        (&wanted.cross, &lock.cross),
        (&wanted.files, &lock.files),
    ];
    for (wishes, locked) in lists {
        let missing =
            wishes.iter().filter(|wish| !locked.packages.iter().any(|package| pins(package, wish)));
        moved.extend(
            missing
                .map(|wish| format!("`{}` for {} is not locked", wish.package, wish.architecture)),
        );
    }
    moved
}

fn pins(package: &DebianPackage, wish: &DebianWish) -> bool {
    package.package == wish.package
        && (package.architecture == wish.architecture || package.architecture == "all")
}
