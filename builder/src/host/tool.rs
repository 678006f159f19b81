//! A required tool: how to detect it, and how to install it.

use super::lack::Lack;
use super::program::find_program;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A required tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name, usually that of its program.
    pub name: String,
    /// Its purpose, as the rest of a sentence that begins with the name.
    pub why: String,
    /// How to detect it.
    pub probe: Probe,
    /// How to install it.
    pub remedy: Remedy,
}

/// How to detect that a tool exists and works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A program of this name in `PATH` or among the system's own programs.
    Program(String),
    /// One of these files.
    AnyFile(Vec<PathBuf>),
    /// The standard library for this Rust target.
    RustTarget(String),
    /// A module for a Python in `PATH`.
    PythonModule(String),
    /// The program `go` with at min this version.
    Go {
        /// Its major and minor number.
        min: (u32, u32),
    },
    /// A sandbox of bubblewrap. If bubblewrap is missing, only its own check fails.
    Sandbox,
    /// Programs for amd64 run in a sandbox, by the processor or by an emulator.
    Amd64,
    /// A mirror of Debian in the settings of apt. If apt is missing, only its own check fails.
    DebianMirror,
}

/// How to install a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// This Debian package.
    Package(String),
    /// `rustup target add` with this target.
    RustTarget(String),
    /// `pip install` with this package and version.
    Pip(String),
    /// These instructions for the user.
    Words(String),
}

impl Probe {
    fn program(name: &str) -> Self {
        Probe::Program(name.to_owned())
    }
}

impl Tool {
    /// A program from a Debian package.
    pub fn package(program: &str, package: &str, why: &str) -> Self {
        Tool::new(program, why, Probe::program(program), Remedy::Package(package.to_owned()))
    }

    /// A program that is not a Debian package.
    pub fn other(program: &str, why: &str, words: &str) -> Self {
        Tool::new(program, why, Probe::program(program), Remedy::Words(words.to_owned()))
    }

    /// The standard library for a Rust target.
    pub fn rust_target(target: &str, why: &str) -> Self {
        let probe = Probe::RustTarget(target.to_owned());
        Tool::new(target, why, probe, Remedy::RustTarget(target.to_owned()))
    }

    /// A package with a version for pip.
    pub fn pip(name: &str, probe: Probe, module: &str, why: &str) -> Self {
        Tool::new(name, why, probe, Remedy::Pip(module.to_owned()))
    }

    fn new(name: &str, why: &str, probe: Probe, remedy: Remedy) -> Self {
        Tool { name: name.to_owned(), why: why.to_owned(), probe, remedy }
    }

    /// Checks the tool. `None` if it exists and works.
    pub fn lack(&self) -> Option<Lack> {
        let is_there = match &self.probe {
            Probe::Program(name) => find_program(name).is_some(),
            Probe::AnyFile(files) => files.iter().any(|file| file.exists()),
            Probe::RustTarget(target) => has_rust_target(target),
            Probe::PythonModule(name) => has_python_module(name),
            Probe::Go { min } => match find_program("go") {
                Some(program) => return self.too_old(&program, *min),
                None => false,
            },
            Probe::Sandbox => return super::sandbox::lack(),
            Probe::Amd64 => return super::amd64::lack(),
            Probe::DebianMirror => return super::mirror::lack(),
        };
        (!is_there).then(|| Lack {
            problem: format!("`{}` is not installed: it {}", self.name, self.why),
            cause: None,
            remedy: self.remedy.to_string(),
        })
    }

    /// Checks the version of `go`: an older one does not support toolchains, and would fail only
    /// after it has fetched a module that needs one.
    fn too_old(&self, program: &Path, min: (u32, u32)) -> Option<Lack> {
        let ran = Command::new(program).arg("version").stdin(Stdio::null()).output();
        let output = ran.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        );
        let (major, minor) = min;
        let fits = go_version(&output).is_some_and(|version| version >= min);
        (!fits).then(|| Lack {
            problem: format!(
                "`go` is older than {major}.{minor}, or does not run: it {}",
                self.why
            ),
            cause: Some(output),
            remedy: self.remedy.to_string(),
        })
    }

    /// The tool for `doctor --json`.
    pub(super) fn row(&self, lack: Option<&Lack>) -> serde_json::Value {
        let (reason, remedy) = (lack.map(|lack| &lack.problem), lack.map(|lack| &lack.remedy));
        let cause = lack.and_then(|lack| lack.cause.as_ref());
        serde_json::json!({
            "name": self.name,
            "why": self.why,
            "ok": lack.is_none(),
            "reason": reason,
            "cause": cause,
            "remedy": remedy,
        })
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

/// Parses the major and minor version in `go version go1.19.8 linux/amd64`.
fn go_version(output: &str) -> Option<(u32, u32)> {
    let version = output.split(' ').find_map(|word| {
        word.strip_prefix("go").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })?;
    let mut parts = version.split('.');
    let number =
        |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    Some((number(parts.next()?)?, parts.next().and_then(number).unwrap_or_default()))
}

/// The sysroot of this project's Rust compiler; `None` without one.
fn rust_sysroot() -> Option<PathBuf> {
    static SYSROOT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let read = || {
        let output = Command::new("rustc")
            .args(["--print", "sysroot"])
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| PathBuf::from(path.trim()))
    };
    SYSROOT.get_or_init(read).clone()
}

/// Whether the compiler of this project has the target's standard library.
fn has_rust_target(target: &str) -> bool {
    let Some(sysroot) = rust_sysroot() else { return false };
    sysroot.join("lib/rustlib").join(target).join("lib").is_dir()
}

/// Whether a Python in `PATH` has a module, from Debian, pip or pyenv.
fn has_python_module(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let prefixes =
        std::env::split_paths(&path).filter_map(|folder| folder.parent().map(Path::to_owned));
    let prefixes = prefixes.flat_map(|prefix| entries(&prefix.join("versions")).chain([prefix]));
    let libraries = prefixes.flat_map(|prefix| entries(&prefix.join("lib")));
    let mut homes = libraries
        .flat_map(|library| [library.join("site-packages"), library.join("dist-packages")]);
    homes.any(|home| home.join(name).is_dir())
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_go_without_toolchains_is_too_old() {
        assert_eq!(go_version("go version go1.19.8 linux/amd64"), Some((1, 19)));
        assert_eq!(go_version("go version go1.26rc1 linux/amd64"), Some((1, 26)));
        assert_eq!(go_version("go: cannot run"), None);
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("go");
        std::fs::write(&old, "#!/bin/sh\necho go version go1.19.8 linux/amd64\n").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
        let tool = Tool::other("go", "fetches Go modules", "install Go");
        let lack = tool.too_old(&old, (1, 21)).unwrap();
        assert_eq!(lack.problem, "`go` is older than 1.21, or does not run: it fetches Go modules");
        assert_eq!(lack.cause.as_deref(), Some("go version go1.19.8 linux/amd64"));
        assert_eq!(tool.too_old(&old, (1, 19)), None);
    }

    #[test]
    fn programs_in_the_system_folders_are_found() {
        assert!(find_program("ldconfig").is_some());
        assert!(find_program("no-such-program").is_none());
    }

    #[test]
    fn a_python_module_is_detected_by_its_folder() {
        assert!(has_python_module("pip") || has_python_module("jsonschema"));
        assert!(!has_python_module("no_such_module"));
    }

    #[test]
    fn a_rust_target_is_detected_by_its_library() {
        assert!(
            has_rust_target(concat!("x86_64", "-unknown-linux-gnu"))
                || has_rust_target("aarch64-unknown-linux-gnu")
        );
        assert!(!has_rust_target("no-such-target"));
    }
}
