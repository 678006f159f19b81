//! One thing that has to be installed: how to see that it is there, and where it comes from.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A thing that has to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name, mostly that of its program.
    pub name: String,
    /// What it is for, as the rest of a sentence that begins with the name.
    pub why: String,
    /// How to see that it is there.
    pub found: Found,
    /// Where it comes from.
    pub remedy: Remedy,
}

/// How to see that a tool is there. No process is started for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A program of this name in `PATH` or among the system's own programs.
    Program(String),
    /// One of these files.
    AnyFile(Vec<PathBuf>),
    /// The standard library for this Rust target, beside the compiler's own.
    RustTarget(String),
    /// A module of Python, beside a `python3` in `PATH`.
    PythonModule(String),
}

/// Where a tool comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// This Debian package.
    Package(String),
    /// `rustup target add` with this target.
    RustTarget(String),
    /// `pip install` with this package and version.
    Pip(String),
    /// The user has to do this.
    Words(String),
}

impl Tool {
    /// A program from a Debian package.
    pub fn package(program: &str, package: &str, why: &str) -> Self {
        let found = Found::Program(program.to_owned());
        Tool { name: program.to_owned(), why: why.to_owned(), found, remedy: Remedy::Package(package.to_owned()) }
    }

    /// A program that comes from elsewhere.
    pub fn other(program: &str, why: &str, words: &str) -> Self {
        let found = Found::Program(program.to_owned());
        Tool { name: program.to_owned(), why: why.to_owned(), found, remedy: Remedy::Words(words.to_owned()) }
    }

    /// The standard library for a Rust target.
    pub fn rust_target(target: &str, why: &str) -> Self {
        let found = Found::RustTarget(target.to_owned());
        Tool { name: target.to_owned(), why: why.to_owned(), found, remedy: Remedy::RustTarget(target.to_owned()) }
    }

    /// What pip installs, of this version.
    pub fn pip(name: &str, found: Found, module: &str, why: &str) -> Self {
        Tool { name: name.to_owned(), why: why.to_owned(), found, remedy: Remedy::Pip(module.to_owned()) }
    }

    /// Whether it is there.
    pub fn is_there(&self) -> bool {
        match &self.found {
            Found::Program(name) => find_program(name).is_some(),
            Found::AnyFile(files) => files.iter().any(|file| file.exists()),
            Found::RustTarget(target) => has_rust_target(target),
            Found::PythonModule(name) => has_python_module(name),
        }
    }

    /// The tool as `doctor --json` shows it.
    pub(super) fn row(&self, missing: bool) -> serde_json::Value {
        let remedy = missing.then(|| self.remedy.to_string());
        serde_json::json!({ "name": self.name, "why": self.why, "ok": !missing, "remedy": remedy })
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Package(package) => write!(f, "apt-get install {package}"),
            Remedy::RustTarget(target) => write!(f, "rustup target add {target}"),
            Remedy::Pip(package) => write!(f, "pip3 install --break-system-packages {package}"),
            Remedy::Words(words) => f.write_str(words),
        }
    }
}

/// The program's path. Debian leaves the system's own programs out of an ordinary user's `PATH`; they run all the same.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Whether the compiler that `cargo` would use here has the target's library. rustup keeps every toolchain in one folder.
fn has_rust_target(target: &str) -> bool {
    let Some(sysroot) = super::install::rust_sysroot() else { return false };
    sysroot.join("lib/rustlib").join(target).join("lib").is_dir()
}

/// Whether a Python of `PATH` has a module: Debian's own or pip's, or one that pyenv keeps beside others.
fn has_python_module(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let prefixes = std::env::split_paths(&path).filter_map(|folder| folder.parent().map(Path::to_owned));
    let prefixes = prefixes.flat_map(|prefix| entries(&prefix.join("versions")).chain([prefix]));
    let libraries = prefixes.flat_map(|prefix| entries(&prefix.join("lib")));
    let mut homes = libraries.flat_map(|library| [library.join("site-packages"), library.join("dist-packages")]);
    homes.any(|home| home.join(name).is_dir())
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_may_execute_is_no_program() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tool");
        std::fs::write(&file, "").unwrap();
        assert!(!is_program(&file) && !is_program(dir.path()));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_program(&file));
    }

    #[test]
    fn the_systems_own_programs_are_found_by_an_ordinary_user_too() {
        assert!(find_program("ldconfig").is_some());
        assert!(find_program("no-such-program").is_none());
    }

    #[test]
    fn a_python_module_is_there_only_with_its_folder() {
        assert!(has_python_module("pip") || has_python_module("jsonschema"));
        assert!(!has_python_module("no_such_module"));
    }

    #[test]
    fn a_rust_target_is_there_only_with_its_library() {
        assert!(has_rust_target(concat!("x86_64", "-unknown-linux-gnu")) || has_rust_target("aarch64-unknown-linux-gnu"));
        assert!(!has_rust_target("no-such-target"));
    }
}
