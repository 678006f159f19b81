//! The Go modules that the lab's programs are compiled from.

use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{GoLock, Lock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use zip::ZipArchive;

/// The locked version of a component, as in `v1.35.8`.
pub fn version(lock: &Lock, component: &str) -> Result<String> {
    Ok(locked(lock, component)?.version.clone())
}

/// The text files of a component's own module whose paths begin with `start`, by the rest of their
/// paths.
pub fn files(
    site: &Site,
    lock: &Lock,
    component: &str,
    start: &str,
) -> Result<BTreeMap<String, String>> {
    let locked = locked(lock, component)?;
    let own = locked.modules.iter().find(|module| module.path == locked.module);
    let zip = own.and_then(|module| module.zip.as_ref());
    let zip =
        zip.ok_or_else(|| Error::build(format!("the lock has no module of `{component}`")))?;
    let store = site.store()?;
    let zip = store.path(&store.locked(&zip.sha256)?)?;
    let cannot = || format!("cannot read the module of `{component}`");
    let mut zip = ZipArchive::new(File::open(zip).or_build(cannot)?).or_build(cannot)?;
    let start = format!("{}@{}/{start}", locked.module, locked.version);
    let mut files = BTreeMap::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).or_build(cannot)?;
        let name = entry.name().or_build(cannot)?.into_owned();
        let Some(name) = name.strip_prefix(&start) else { continue };
        let mut text = String::new();
        entry.read_to_string(&mut text).or_build(cannot)?;
        files.insert(name.to_owned(), text);
    }
    Ok(files)
}

/// A text file of a component's own module.
///
/// # Errors
/// The module cannot be read, or has no such file.
pub fn file(site: &Site, lock: &Lock, component: &str, path: &str) -> Result<String> {
    let missing = || Error::build(format!("the module of `{component}` has no `{path}`"));
    files(site, lock, component, path)?.remove("").ok_or_else(missing)
}

fn locked<'l>(lock: &'l Lock, component: &str) -> Result<&'l GoLock> {
    let found = lock.go.iter().find(|go| go.component == component);
    found.ok_or_else(|| Error::build(format!("the lock has no `{component}`")))
}
