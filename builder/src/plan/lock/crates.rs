//! The crates that programs of this workspace depend on, from `Cargo.lock`.

use super::Crate;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The packages of a `Cargo.lock`.
#[derive(Debug, Deserialize)]
pub struct CargoLock {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Packages of this workspace with all their dependencies.
///
/// `Cargo.lock` does not mark dependencies that only tests or other operating systems need. They
/// are included, and cargo resolves them before it compiles anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// The packages and the members of the workspace that they depend on.
    pub members: BTreeSet<String>,
    /// The crates from the registry, in order of name and version.
    pub crates: Vec<Crate>,
}

impl Closure {
    /// Whether a member or a crate of this name is in it, in any version.
    pub fn has(&self, name: &str) -> bool {
        self.members.contains(name) || self.crates.iter().any(|krate| krate.name == name)
    }

    /// Whether a member of this name, or a crate of this name and version, is in it.
    pub fn has_version(&self, name: &str, version: &str) -> bool {
        self.members.contains(name)
            || self.crates.iter().any(|krate| krate.name == name && krate.version == version)
    }
}

impl CargoLock {
    /// Reads the text of a `Cargo.lock`.
    ///
    /// # Errors
    /// The text is not a `Cargo.lock`.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text)
            .map_err(|error| Error::usage("`Cargo.lock` cannot be read").cause(error.message()))
    }

    /// The closure of `packages`.
    ///
    /// # Errors
    /// A package is not in the lock, or does not come from a registry.
    pub fn closure(&self, packages: &BTreeSet<&str>) -> Result<Closure> {
        let mut by_name: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
        for package in &self.package {
            by_name.entry(&package.name).or_default().push(package);
        }
        let mut reached: BTreeSet<(&str, &str)> = BTreeSet::new();
        let mut open: Vec<&str> = packages.iter().copied().collect();
        let (mut members, mut crates) = (BTreeSet::new(), BTreeSet::new());
        while let Some(name) = open.pop() {
            let package = find(&by_name, name).ok_or_else(|| {
                Error::usage(format!("`Cargo.lock` has no package `{name}`"))
                    .hint("`cargo metadata` brings it up to date")
            })?;
            if !reached.insert((&package.name, &package.version)) {
                continue;
            }
            open.extend(package.dependencies.iter().map(String::as_str));
            match from_registry(package)? {
                Some(krate) => crates.insert(krate),
                None => members.insert(package.name.clone()),
            };
        }
        Ok(Closure { members, crates: crates.into_iter().collect() })
    }
}

/// Finds the package of a dependency: `name`, `name version` or `name version (source)`.
fn find<'l>(by_name: &BTreeMap<&str, Vec<&'l Package>>, name: &str) -> Option<&'l Package> {
    let mut words = name.split(' ');
    let candidates = by_name.get(words.next()?)?;
    match words.next() {
        Some(version) => candidates.iter().find(|package| package.version == version).copied(),
        None => candidates.first().copied(),
    }
}

fn from_registry(package: &Package) -> Result<Option<Crate>> {
    match (&package.source, &package.checksum) {
        (None, _) => Ok(None),
        (Some(source), Some(checksum)) if source.starts_with("registry+") => Ok(Some(Crate {
            name: package.name.clone(),
            version: package.version.clone(),
            sha256: checksum.clone(),
        })),
        (Some(source), _) => {
            Err(Error::usage(format!("crate `{}` cannot be pinned by digest", package.name))
                .cause(format!("it comes from `{source}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
        version = 4
        [[package]]
        name = "init"
        version = "0.1.0"
        dependencies = ["abi", "libc 0.2.1"]
        [[package]]
        name = "abi"
        version = "0.1.0"
        [[package]]
        name = "builder"
        version = "0.1.0"
        dependencies = ["clap", "libc 0.1.0"]
        [[package]]
        name = "clap"
        version = "4.0.0"
        source = "registry+https://example.org/index"
        checksum = "aa"
        [[package]]
        name = "libc"
        version = "0.1.0"
        source = "registry+https://example.org/index"
        checksum = "bb"
        [[package]]
        name = "libc"
        version = "0.2.1"
        source = "registry+https://example.org/index"
        checksum = "cc"
    "#;

    fn closure(lock: &str, package: &str) -> Result<Closure> {
        CargoLock::parse(lock)?.closure(&BTreeSet::from([package]))
    }

    #[test]
    fn the_closure_has_only_what_the_node_needs() {
        let crates = closure(LOCK, "init").unwrap().crates;
        assert_eq!(
            crates,
            [Crate { name: "libc".into(), version: "0.2.1".into(), sha256: "cc".into() }]
        );
    }

    #[test]
    fn a_crate_without_a_digest_is_refused() {
        let git =
            LOCK.replace("registry+https://example.org/index", "git+https://example.org/libc");
        assert!(closure(&git, "init").unwrap_err().to_string().contains("cannot be pinned"));
    }

    #[test]
    fn an_absent_package_is_named() {
        assert!(closure(LOCK, "kubelet").unwrap_err().to_string().contains("`kubelet`"));
    }
}
