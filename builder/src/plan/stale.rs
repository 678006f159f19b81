//! Whether a lock still pins what the plan wants.

use super::wanted::{DebianWish, Wanted};
use super::{DebianPackage, Lock, Locked, Plan, Unlocked};
use crate::error::{Error, Result};

impl Plan<Unlocked> {
    /// The plan with its lock, if the lock pins all that this plan wants and nothing else.
    ///
    /// # Errors
    /// The lock belongs to another recipe or to an earlier state of this one, of kind [`crate::error::Kind::Lock`]. The causes say what differs.
    pub fn lock(self, lock: Lock) -> Result<Plan<Locked>> {
        let path = Lock::path(&self.recipe);
        if lock.recipe != self.recipe {
            return Err(Error::lock(format!("`{path}` is the lock of `{}`", lock.recipe)).hint(relock(&self.recipe)));
        }
        let moved = differences(&self.wanted, &lock);
        if !moved.is_empty() || lock.wanted != self.wanted.digest() {
            let error = Error::lock(format!("`{path}` is out of date: the recipe asks for something else"));
            let error = moved.into_iter().fold(error, Error::cause);
            return Err(error.hint(relock(&self.recipe)));
        }
        Ok(Plan { resolved: self.resolved, lock: Locked(lock) })
    }
}

fn relock(recipe: &str) -> String {
    format!("write it anew with `cargo osbuild lock {recipe}`")
}

/// What a lock has otherwise, a line each.
fn differences(wanted: &Wanted, lock: &Lock) -> Vec<String> {
    let mut moved = Vec::new();
    let mut compare = |what: &str, wanted: &str, locked: &str| {
        if wanted != locked {
            moved.push(format!("{what}: `{wanted}` is wanted, `{locked}` is locked"));
        }
    };
    compare("kernel source", &wanted.kernel_source.package, &lock.kernel_source.package);
    compare("UEFI stub", &wanted.stub.package, &lock.stub.package);
    compare("Go toolchain", &wanted.go_toolchain, &lock.toolchain.go.version);
    compare("Rust toolchain", &wanted.rust_toolchain.version, &lock.toolchain.rust.version);
    compare("Rust targets", &wanted.rust_toolchain.targets.join(" "), &lock.toolchain.rust.targets.join(" "));
    for wish in &wanted.go_modules {
        let locked = lock.go.iter().find(|go| go.component == wish.component && go.module == wish.module);
        compare(&wish.component, &wish.version, locked.map_or("nothing", |go| &go.version));
    }
    if wanted.crates_digest() != lock.crates.digest {
        moved.push("crates: the node's part of `Cargo.lock` has changed".to_owned());
    }
    let lists = [(&wanted.sandbox, &lock.sandbox), (&wanted.cross, &lock.cross), (&wanted.files, &lock.files)];
    for (wishes, locked) in lists {
        let missing = wishes.iter().filter(|wish| !locked.packages.iter().any(|package| pins(package, wish)));
        moved.extend(missing.map(|wish| format!("`{}` for {} is not locked", wish.package, wish.architecture)));
    }
    moved
}

fn pins(package: &DebianPackage, wish: &DebianWish) -> bool {
    package.package == wish.package && (package.architecture == wish.architecture || package.architecture == "all")
}
