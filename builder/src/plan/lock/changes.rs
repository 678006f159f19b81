//! The versions that differ from one lock to the next, as `osbuild update` reports them.

use super::{Crate, DebianPackage, Lock};
use crate::plan::{Minor, Release, Releases};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A version that changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moved {
    /// Its name for people: `runc`, `gcc-12 for amd64`.
    pub name: String,
    /// The version before; `None` if it was not locked.
    pub from: Option<String>,
    /// The version now; `None` if it is no longer locked.
    pub to: Option<String>,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] =
            [&self.from, &self.to].map(|version| version.as_deref().unwrap_or("nothing"));
        write!(f, "{}: {from} → {to}", self.name)
    }
}

/// The versions that differ in `after`, in order of name. The modules of a Go component are not
/// listed one by one.
pub fn moved(before: &Lock, after: &Lock) -> Vec<Moved> {
    compare(&versions(before), &versions(after))
}

/// The minors that are new in `after`, and those whose newest patch differs.
pub fn moved_releases(before: Option<&Releases>, after: &Releases) -> Vec<Moved> {
    let newest = |releases: &Releases| -> BTreeMap<String, String> {
        let minor = |(minor, release): (&Minor, &Release)| {
            (format!("Kubernetes {minor}"), release.newest.to_string())
        };
        releases.minors.iter().map(minor).collect()
    };
    compare(&before.map(newest).unwrap_or_default(), &newest(after))
}

/// The crates whose versions differ in `after`.
pub fn moved_crates(before: &[Crate], after: &[Crate]) -> Vec<Moved> {
    let versions = |crates: &[Crate]| {
        let mut versions = BTreeMap::<String, String>::new();
        for krate in crates {
            // Two versions of one crate are one entry.
            let all = versions.entry(format!("crate {}", krate.name)).or_default();
            *all = if all.is_empty() {
                krate.version.clone()
            } else {
                format!("{all}, {}", krate.version)
            };
        }
        versions
    };
    compare(&versions(before), &versions(after))
}

fn compare(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Moved> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let moved = |name: &String| {
        let (from, to) = (before.get(name).cloned(), after.get(name).cloned());
        (from != to).then(|| Moved { name: name.clone(), from, to })
    };
    names.into_iter().filter_map(moved).collect()
}

fn versions(lock: &Lock) -> BTreeMap<String, String> {
    let debian = lock.debian_packages().map(|package| {
        let DebianPackage { package, version, architecture, release, .. } = package;
        let of = match release.is_default() {
            true => String::new(),
            false => format!(" of {}", release.name()),
        };
        (format!("{package}{of} for {architecture}"), version.clone())
    });
    let go = lock.go.iter().map(|go| (go.component.clone(), go.version.clone()));
    let rust = lock.toolchain.rust.iter().map(|rust| ("Rust".to_owned(), rust.version.clone()));
    let toolchains =
        std::iter::once(("Go".to_owned(), lock.toolchain.go.version.clone())).chain(rust);
    debian.chain(go).chain(toolchains).collect()
}
