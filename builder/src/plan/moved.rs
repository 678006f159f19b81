//! What `osbuild update` moved, from one lock to the next.

use super::Lock;
use std::collections::{BTreeMap, BTreeSet};

/// One locked thing whose version is another one now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// What people call it: `runc`, `gcc-12 for amd64`.
    pub name: String,
    /// The version before; none for what was not locked.
    pub from: Option<String>,
    /// The version now; none for what is not locked any more.
    pub to: Option<String>,
}

/// What is different in `after`, in order of name. Modules that a Go component is made of are not told one by one.
pub fn moved(before: &Lock, after: &Lock) -> Vec<Moved> {
    let (before, after) = (versions(before), versions(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let moved = |name: &String| {
        let (from, to) = (before.get(name).cloned(), after.get(name).cloned());
        (from != to).then(|| Moved { name: name.clone(), from, to })
    };
    names.into_iter().filter_map(moved).collect()
}

fn versions(lock: &Lock) -> BTreeMap<String, String> {
    let debian = lock
        .debian_packages()
        .map(|package| (format!("{} for {}", package.package, package.architecture), package.version.clone()));
    let go = lock.go.iter().map(|go| (go.component.clone(), go.version.clone()));
    let toolchains = [("Go", &lock.toolchain.go.version), ("Rust", &lock.toolchain.rust.version)];
    let toolchains = toolchains.map(|(name, version)| (name.to_owned(), version.clone()));
    debian.chain(go).chain(toolchains).collect()
}
