//! Fetches crates with `cargo fetch`, which knows the user's registry, mirror and proxy.

use super::client::Client;
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Context, Error, Result};
use crate::plan::Crate;
use crate::report::Step;
use std::path::{Path, PathBuf};

/// Fetches the crates in the project's `Cargo.lock` and puts `crates` into the store.
///
/// # Errors
/// The registry does not have a crate, or `Cargo.lock` does not fit `Cargo.toml`.
pub fn fetch(store: &Store, project: &Path, crates: &[&Crate], step: &Step) -> Result<()> {
    let absent = download(store, project, crates, step)?;
    let Some(first) = absent.first() else { return Ok(()) };
    let name = file_name(first);
    let file = files(&caches()?, first).next();
    let file =
        file.ok_or_else(|| Error::build(format!("`cargo fetch` did not download `{name}`")))?;
    super::expect(store.put_file(&file)?, &first.sha256, &name)
}

/// Downloads the crates in the project's `Cargo.lock`, and puts the archives of `crates` into the
/// store. Returns those without a matching archive: cargo has none of a crate that it takes from a
/// folder.
///
/// # Errors
/// The registry does not have a crate, or `Cargo.lock` does not fit `Cargo.toml`.
pub fn download<'c>(
    store: &Store,
    project: &Path,
    crates: &[&'c Crate],
    step: &Step,
) -> Result<Vec<&'c Crate>> {
    Client::new("cargo").args(["fetch", "--locked"]).within(project).shown(step).run()?;
    let mut absent = crates.to_vec();
    keep_cached(store, &mut absent)?;
    Ok(absent)
}

/// Puts those of `crates` into the store that cargo's cache has, and keeps the others in the list.
///
/// # Errors
/// The store cannot be written.
pub fn keep_cached(store: &Store, crates: &mut Vec<&Crate>) -> Result<()> {
    // Without a cache, no crate is in it.
    let folders = caches().unwrap_or_default();
    let mut absent = Vec::new();
    for krate in crates.drain(..) {
        if !keep(store, &folders, krate)? {
            absent.push(krate);
        }
    }
    *crates = absent;
    Ok(())
}

fn file_name(krate: &Crate) -> String {
    format!("{}-{}.crate", krate.name, krate.version)
}

/// Puts a crate into the store if one of the folders has it. The folder of another registry can
/// have other bytes under the same name.
fn keep(store: &Store, folders: &[PathBuf], krate: &Crate) -> Result<bool> {
    for file in files(folders, krate) {
        if Digest::of_file(&file)?.hex() == krate.sha256 {
            return Ok(store.put_file(&file)?.hex() == krate.sha256);
        }
    }
    Ok(false)
}

/// The files in these folders that have the name of a crate's archive.
fn files(folders: &[PathBuf], krate: &Crate) -> impl Iterator<Item = PathBuf> {
    let name = file_name(krate);
    folders.iter().map(move |folder| folder.join(&name)).filter(|file| file.is_file())
}

/// Updates `Cargo.lock` with `cargo update`.
pub fn update(project: &Path, step: &Step) -> Result<()> {
    Client::new("cargo").args(["update"]).within(project).shown(step).run().map(drop)
}

/// The folders in which cargo keeps archives: one per registry.
fn caches() -> Result<Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or_else(|| {
        Error::build("neither `CARGO_HOME` nor `HOME` is set, so cargo's cache cannot be found")
    })?;
    let cache = home.join("registry/cache");
    let entries = std::fs::read_dir(&cache)
        .or_build(|| format!("cannot read cargo's cache `{}`", cache.display()))?;
    Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
}
