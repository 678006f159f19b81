//! The folder of what cargo compiles for the checks. All checkouts of a user share it, so that crates are compiled once.
//!
//! Cargo tells by a file's time whether it has to be compiled again, so what it made of one checkout can pass for what another one holds.
//! The folder is therefore one checkout's at a time, and a new one's own packages are compiled anew.

use osbuild::error::{Context, Result};
use osbuild::produce::store::{Lock, Store};
use osbuild::report::Report;
use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that names the checkout whose packages the folder holds.
const WHOSE: &str = "checkout";

/// Where cargo keeps what it knows of each package: `PACKAGE-HASH`.
const KNOWN: &str = ".fingerprint";

/// The folder.
pub struct Compiled {
    store: Store,
    folder: PathBuf,
    held: OnceCell<Lock>,
}

impl Compiled {
    /// The folder of whoever has this store.
    pub fn new(store: Store) -> Result<Self> {
        let folder = store.state("ci-target")?;
        Ok(Compiled { store, folder, held: OnceCell::new() })
    }

    /// Where `cargo install` puts what the checks use.
    pub fn tools(&self) -> PathBuf {
        self.folder.join("tools")
    }

    /// The folder, as that of the checkout `root`, whose packages have these names. It stays so until this process ends; whoever wants it
    /// for another one waits.
    pub fn of(&self, report: &Report, root: &Path, packages: impl FnOnce() -> Result<Vec<String>>) -> Result<&Path> {
        if self.held.get().is_none() {
            let mut told = false;
            let lock = self.store.lock("ci-target", || {
                if !std::mem::replace(&mut told, true) {
                    report.note("another `cargo ci` compiles: this one waits for it");
                }
                Ok(())
            })?;
            take(&self.folder, root, packages)?;
            // Nobody else can have set it: there is one thread.
            let _ = self.held.set(lock);
        }
        Ok(&self.folder)
    }
}

/// Makes `folder` that of `root`.
fn take(folder: &Path, root: &Path, packages: impl FnOnce() -> Result<Vec<String>>) -> Result<()> {
    let (whose, root) = (folder.join(WHOSE), root.as_os_str().as_encoded_bytes());
    if fs::read(&whose).is_ok_and(|bytes| bytes == root) {
        return Ok(());
    }
    let packages = packages()?;
    let cannot = || format!("cannot forget what `{}` holds of another checkout", folder.display());
    forget(folder, &packages, 3).or_build(cannot)?;
    fs::write(&whose, root).or_build(cannot)
}

/// Removes what cargo knows of `packages`: in the folder of each profile, and in those of each target.
fn forget(folder: &Path, packages: &[String], depth: usize) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()? {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = || name.rsplit_once('-').is_some_and(|(package, _)| packages.iter().any(|ours| ours == package));
        if folder.ends_with(KNOWN) {
            if is_ours() {
                fs::remove_dir_all(&path)?;
            }
        } else if depth > 0 && entry.file_type()?.is_dir() {
            forget(&path, packages, depth - 1)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What there is after `root` has taken a folder that was of the checkout `/one`.
    fn left(root: &str) -> Vec<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        let known = [
            "debug/.fingerprint/osbuild-00d1",
            "debug/.fingerprint/osbuild-abi-00d1",
            "debug/.fingerprint/osbuild-other-00d1",
            "debug/.fingerprint/serde-00d1",
            "aarch64-unknown-linux-musl/node/.fingerprint/osbuild-abi-00d1",
            "debug/deps/osbuild-00d1",
        ];
        for path in known {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        take(folder.path(), Path::new("/one"), || Ok(Vec::new())).unwrap();
        take(folder.path(), Path::new(root), || Ok(vec!["osbuild".to_owned(), "osbuild-abi".to_owned()])).unwrap();
        known.into_iter().filter(|path| folder.path().join(path).exists()).collect()
    }

    #[test]
    fn another_checkouts_packages_are_compiled_anew_and_nothing_else_is() {
        assert_eq!(left("/one").len(), 6);
        assert_eq!(
            left("/two"),
            ["debug/.fingerprint/osbuild-other-00d1", "debug/.fingerprint/serde-00d1", "debug/deps/osbuild-00d1"]
        );
    }
}
