//! Reads files from locked Debian packages.

use super::build::Build;
use super::locked;
use super::supply::Extract;
use crate::engine::deb;
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Context, Error, Result};
use crate::plan::{DebianPackage, Locked, Product};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files and links of a package, by path.
#[derive(Default)]
pub struct Contents {
    /// Regular files.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Links with their targets.
    pub links: BTreeMap<PathBuf, PathBuf>,
}

/// The bytes of one file of a package, or of all files in a folder, concatenated in the order of
/// their names. They are in the store afterwards.
///
/// # Errors
/// The package cannot be fetched, or has nothing at `path`.
pub fn read<P: Product<Locked>>(
    build: &Build<'_, P>,
    package: &DebianPackage,
    path: &str,
) -> Result<Digest> {
    let extract = Extract {
        name: format!("{} {path}", package.package),
        rule: "files of a package, version 1",
        arguments: vec![path.to_owned()],
        sources: vec![locked::package(package)?],
    };
    build.extract(&extract, &|| {
        let Contents { files, .. } = contents(build.options.store, package, path)?;
        if files.is_empty() {
            let name = &package.package;
            return Err(Error::build(format!("package `{name}` has nothing at `{path}`")));
        }
        Ok(files.into_values().flatten().collect())
    })
}

/// The files and links of a package at or below `path`; all of them for an empty path.
///
/// # Errors
/// The store lacks the package, or it is malformed.
pub fn contents(store: &Store, package: &DebianPackage, path: &str) -> Result<Contents> {
    let file = store.path(&store.locked(&package.sha256)?)?;
    unpack(&file, path).or_build(|| format!("cannot read package `{}`", package.package))
}

fn unpack(package: &Path, path: &str) -> std::io::Result<Contents> {
    let mut contents = Contents::default();
    for entry in tar::Archive::new(deb::data(File::open(package)?)?).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let name = name.strip_prefix(".").map_or(name.clone(), Path::to_owned);
        if !name.starts_with(path) {
            continue;
        }
        if entry.header().entry_type().is_file() {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            contents.files.insert(name, bytes);
        } else if let Some(target) = entry.link_name()? {
            contents.links.insert(name, target.into_owned());
        }
    }
    Ok(contents)
}
