//! Reads files from locked Debian packages.

use crate::engine::deb;
use crate::engine::store::Store;
use crate::error::{Context, Error, Result};
use crate::plan::DebianPackage;
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
/// their names.
///
/// # Errors
/// The store lacks the package, or the package has nothing at `path`.
pub fn read(store: &Store, package: &DebianPackage, path: &str) -> Result<Vec<u8>> {
    let Contents { files, .. } = contents(store, package, path)?;
    if files.is_empty() {
        return Err(Error::build(format!("package `{}` has nothing at `{path}`", package.package)));
    }
    Ok(files.into_values().flatten().collect())
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
