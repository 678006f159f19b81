//! The programs behind `cargo osbuild` and `cargo ci`. They have no dependencies, compile
//! everything else, and show the progress.
//!
//! This module locks cargo's build folder for the checks. All checkouts of a user share the folder,
//! so that crates are compiled once.
//!
//! cargo compares file times to decide whether to compile, and so can take the packages of one
//! checkout for those of another. The folder therefore belongs to one checkout at a time, and a new
//! owner compiles its own packages again. A new clone in the place of the owner compiles only
//! files whose content has changed. Programs go to the checkout's own folder, where no other
//! checkout replaces them.

pub mod fresh;
pub mod progress;
mod times;

use std::fs::{self, File, TryLockError};
use std::io::{self, Error};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// The folder in the user's caches.
const FOLDER: &str = "osbuild/clients/ci-target";

/// The file with the path of the folder's owner, and the file that is locked while cargo works.
const OWNER: &str = "checkout";
const LOCK: &str = "lock";

/// How often the lock is tried.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// cargo's folder with the fingerprint of each package: `PACKAGE-HASH`.
const FINGERPRINTS: &str = ".fingerprint";

/// cargo's build folder for the checks.
pub struct Compiled {
    folder: PathBuf,
}

/// A call of cargo that works in the folder, which is locked until this is dropped, also within
/// this process.
pub struct Cargo {
    command: Command,
    _lock: File,
}

impl Compiled {
    /// This user's folder.
    ///
    /// # Errors
    /// The environment names no folder for caches, or it cannot be made.
    pub fn usual() -> io::Result<Self> {
        let variable =
            |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        let folder = caches
            .ok_or_else(|| Error::other("neither `XDG_CACHE_HOME` nor `HOME` is set"))?
            .join(FOLDER);
        fs::create_dir_all(&folder)?;
        Ok(Compiled { folder })
    }

    /// The folder of the programs that `cargo install` installs for the checks.
    pub fn tools(&self) -> PathBuf {
        self.folder.join("tools")
    }

    /// cargo for the checkout `root`. If another cargo works in the folder, which may be one of
    /// this process, calls `waiting` with a message and waits, as long as `go_on` returns no error.
    ///
    /// # Errors
    /// The folder cannot be read or written, or the error is that of `go_on`.
    pub fn cargo(
        &self,
        root: &Path,
        waiting: impl FnOnce(&str),
        go_on: impl Fn() -> io::Result<()>,
    ) -> io::Result<Cargo> {
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.folder.join(LOCK))?;
        let mut waiting = Some(waiting);
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    if let Some(waiting) = waiting.take() {
                        waiting("another check or `cargo ci` uses cargo: this one waits for it");
                    }
                    go_on()?;
                    sleep(POLL_INTERVAL);
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        take(&self.folder, root)?;
        times::restore(&self.folder, root)?;
        let mut command = self::cargo();
        // Incremental compilation is faster the next time, but takes three times the space.
        command
            .current_dir(root)
            .env("CARGO_BUILD_BUILD_DIR", &self.folder)
            .env("CARGO_INCREMENTAL", "0");
        Ok(Cargo { command, _lock: lock })
    }
}

impl Deref for Cargo {
    type Target = Command;

    fn deref(&self) -> &Command {
        &self.command
    }
}

impl DerefMut for Cargo {
    fn deref_mut(&mut self) -> &mut Command {
        &mut self.command
    }
}

/// The cargo that runs this program, or that of `PATH`, without the variables about this package:
/// build scripts depend on them, and would run again after each call of cargo by the user.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let names = std::env::vars_os().map(|(name, _)| name);
    let is_about_us =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    names.filter(|name| name.to_str().is_some_and(is_about_us)).for_each(|name| {
        cargo.env_remove(name);
    });
    cargo
}

/// The checkout that this crate was compiled from.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate stands in `ci/start`")
}

/// cargo's target folder, which has a folder for each profile.
///
/// # Errors
/// The system does not give the path of this program.
pub fn target() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program
        .ancestors()
        .nth(2)
        .ok_or_else(|| Error::other("this program is not in a folder of cargo's"))?;
    Ok(target.to_owned())
}

/// Makes `root` the owner of `folder`.
fn take(folder: &Path, root: &Path) -> io::Result<()> {
    let (owner, name) = (folder.join(OWNER), root.as_os_str().as_encoded_bytes());
    if fs::read(&owner).is_ok_and(|bytes| bytes == name) {
        return Ok(());
    }
    forget(folder, &own(&fs::read_to_string(root.join("Cargo.lock"))?), 3)?;
    fs::write(&owner, name)
}

/// The packages in `Cargo.lock` without a source, which are the checkout's own.
fn own(lock: &str) -> Vec<&str> {
    let packages =
        lock.split("[[package]]").skip(1).filter(|package| !package.contains("\nsource = "));
    packages.filter_map(|package| package.split('"').nth(1)).collect()
}

/// Removes the fingerprints of `packages` in the folders of each profile and each target.
fn forget(folder: &Path, packages: &[&str], depth: usize) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()? {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours =
            || name.rsplit_once('-').is_some_and(|(package, _)| packages.contains(&package));
        if folder.ends_with(FINGERPRINTS) {
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

    const PACKAGES: &str = "version = 4\n\n\
        [[package]]\nname = \"osbuild\"\nversion = \"0.1.0\"\n\n\
        [[package]]\nname = \"osbuild-abi\"\nversion = \"0.1.0\"\n\n\
        [[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\n";

    /// The files that remain after a checkout has taken its own folder or that of another checkout.
    fn left(is_own: bool) -> Vec<&'static str> {
        let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
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
        fs::write(root.path().join("Cargo.lock"), PACKAGES).unwrap();
        let owner = if is_own { root.path() } else { Path::new("/other") };
        fs::write(folder.path().join(OWNER), owner.as_os_str().as_encoded_bytes()).unwrap();
        take(folder.path(), root.path()).unwrap();
        known.into_iter().filter(|path| folder.path().join(path).exists()).collect()
    }

    #[test]
    fn a_new_owner_compiles_only_its_own_packages_anew() {
        assert_eq!(left(true).len(), 6);
        assert_eq!(
            left(false),
            [
                "debug/.fingerprint/osbuild-other-00d1",
                "debug/.fingerprint/serde-00d1",
                "debug/deps/osbuild-00d1"
            ]
        );
    }

    /// Clones a package anew, and returns whether cargo compiles it.
    fn compiles(compiled: &Compiled, root: &Path, source: &str) -> bool {
        let _ = fs::remove_dir_all(root);
        fs::create_dir_all(root.join("src")).unwrap();
        let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        let lock = "version = 4\n\n[[package]]\nname = \"small\"\nversion = \"0.1.0\"\n";
        for (name, text) in [("Cargo.toml", manifest), ("Cargo.lock", lock), ("src/lib.rs", source)]
        {
            fs::write(root.join(name), text).unwrap();
        }
        let mut cargo =
            compiled.cargo(root, |_| panic!("no other cargo works"), || Ok(())).unwrap();
        let output = cargo.args(["build", "--offline"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        text.contains("Compiling small")
    }

    #[test]
    fn a_new_clone_compiles_only_what_has_changed() {
        let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let compiled = Compiled { folder: folder.path().to_owned() };
        let root = place.path().join("checkout");
        assert!(compiles(&compiled, &root, "pub fn one() {}"));
        assert!(!compiles(&compiled, &root, "pub fn one() {}"));
        assert!(compiles(&compiled, &root, "pub fn two() {}"));
        assert!(!compiles(&compiled, &root, "pub fn two() {}"));
        assert!(compiles(&compiled, &root, "pub fn one() {}"));
        assert!(compiles(&compiled, &place.path().join("other"), "pub fn one() {}"));
    }

    #[test]
    fn a_second_cargo_waits_for_the_first_until_it_may_not() {
        let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(root.path().join("Cargo.lock"), PACKAGES).unwrap();
        let compiled = Compiled { folder: folder.path().to_owned() };
        let (root, go_on) = (root.path(), || Ok(()));
        let first = compiled.cargo(root, |_| panic!("no other cargo works"), go_on).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let waiting = |waits: &str| sender.send(waits.to_owned()).unwrap();
                compiled.cargo(root, waiting, go_on).is_ok()
            });
            assert!(receiver.recv().unwrap().contains("this one waits for it"));
            let stopped = compiled.cargo(root, |_| {}, || Err(Error::other("stopped")));
            assert_eq!(stopped.err().unwrap().to_string(), "stopped");
            drop(first);
            assert!(second.join().unwrap());
        });
    }
}
