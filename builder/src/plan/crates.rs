//! The crates that programs of this workspace are made of, out of `Cargo.lock`.

use super::wanted::Crate;
use crate::error::Problem;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct CargoLock {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// What some packages of this workspace are made of.
///
/// `Cargo.lock` does not tell what a member only needs for its tests, nor what another operating system needs; both are in here, as
/// cargo resolves them before it compiles anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// The packages themselves and the members of the workspace that they depend on.
    pub members: BTreeSet<String>,
    /// Everything from the registry, in order of name and version.
    pub crates: Vec<Crate>,
}

impl Closure {
    /// The closure of `packages` in the text of a `Cargo.lock`.
    ///
    /// # Errors
    /// The text is not a `Cargo.lock`, does not have a package, or has one that comes from elsewhere than a registry.
    pub fn of(cargo_lock: &str, packages: &BTreeSet<&str>) -> Result<Self, Problem> {
        let mut members = BTreeSet::new();
        let crates = closure(cargo_lock, packages, &mut members)?;
        Ok(Closure { members, crates })
    }

    /// Whether a member or a crate of this name is in it, in any version.
    pub fn has(&self, name: &str) -> bool {
        self.members.contains(name) || self.crates.iter().any(|krate| krate.name == name)
    }

    /// Whether a member of this name or a crate of this name and version is in it.
    pub fn has_version(&self, name: &str, version: &str) -> bool {
        self.members.contains(name) || self.crates.iter().any(|krate| krate.name == name && krate.version == version)
    }
}

fn closure(cargo_lock: &str, packages: &BTreeSet<&str>, members: &mut BTreeSet<String>) -> Result<Vec<Crate>, Problem> {
    let lock: CargoLock =
        toml::from_str(cargo_lock).map_err(|error| Problem::new("`Cargo.lock` cannot be read").cause(error.message()))?;
    let mut by_name: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in &lock.package {
        by_name.entry(&package.name).or_default().push(package);
    }
    let mut reached: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut open: Vec<String> = packages.iter().map(|&name| name.to_owned()).collect();
    let mut crates = BTreeSet::new();
    while let Some(wish) = open.pop() {
        let package = find(&by_name, &wish).ok_or_else(|| {
            Problem::new(format!("`Cargo.lock` has no package `{wish}`")).hint("run `cargo metadata` once to bring it up to date")
        })?;
        if !reached.insert((&package.name, &package.version)) {
            continue;
        }
        open.extend(package.dependencies.iter().cloned());
        match from_registry(package)? {
            Some(krate) => drop(crates.insert(krate)),
            None => drop(members.insert(package.name.clone())),
        }
    }
    Ok(crates.into_iter().collect())
}

/// Finds what `Cargo.lock` calls `name`, `name version` or `name version (source)`.
fn find<'l>(by_name: &BTreeMap<&str, Vec<&'l Package>>, wish: &str) -> Option<&'l Package> {
    let mut words = wish.split(' ');
    let candidates = by_name.get(words.next()?)?;
    match words.next() {
        Some(version) => candidates.iter().find(|package| package.version == version).copied(),
        None => candidates.first().copied(),
    }
}

fn from_registry(package: &Package) -> Result<Option<Crate>, Problem> {
    match (&package.source, &package.checksum) {
        (None, _) => Ok(None),
        (Some(source), Some(checksum)) if source.starts_with("registry+") => {
            Ok(Some(Crate { name: package.name.clone(), version: package.version.clone(), sha256: checksum.clone() }))
        }
        (Some(source), _) => Err(Problem::new(format!("crate `{}` cannot be pinned by digest", package.name))
            .cause(format!("it comes from `{source}`"))),
    }
}

