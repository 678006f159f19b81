//! One thing that has to be installed: how to see that it is there, and where it comes from.

use crate::plan::Architecture;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// How to see that a tool is there and does what it is for.
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
    /// The program `go` of at least this version, as it says itself.
    Go {
        /// Its major and minor number.
        least: (u32, u32),
    },
    /// A sandbox that bubblewrap makes. Without bubblewrap it lacks nothing: that is missed by
    /// itself.
    Sandbox,
    /// The processor of this machine.
    Processor(Architecture),
}

/// What is wrong with a tool, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What is wrong, in one line.
    pub said: String,
    /// What the tool itself said, if it was started.
    pub cause: Option<String>,
    /// What to do.
    pub remedy: String,
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
        Tool {
            name: program.to_owned(),
            why: why.to_owned(),
            found,
            remedy: Remedy::Package(package.to_owned()),
        }
    }

    /// A program that comes from elsewhere.
    pub fn other(program: &str, why: &str, words: &str) -> Self {
        let found = Found::Program(program.to_owned());
        Tool {
            name: program.to_owned(),
            why: why.to_owned(),
            found,
            remedy: Remedy::Words(words.to_owned()),
        }
    }

    /// The standard library for a Rust target.
    pub fn rust_target(target: &str, why: &str) -> Self {
        let found = Found::RustTarget(target.to_owned());
        Tool {
            name: target.to_owned(),
            why: why.to_owned(),
            found,
            remedy: Remedy::RustTarget(target.to_owned()),
        }
    }

    /// What pip installs, of this version.
    pub fn pip(name: &str, found: Found, module: &str, why: &str) -> Self {
        Tool {
            name: name.to_owned(),
            why: why.to_owned(),
            found,
            remedy: Remedy::Pip(module.to_owned()),
        }
    }

    /// What is wrong with it; nothing when it is there and works.
    pub fn lack(&self) -> Option<Lack> {
        let is_there = match &self.found {
            Found::Program(name) => find_program(name).is_some(),
            Found::AnyFile(files) => files.iter().any(|file| file.exists()),
            Found::RustTarget(target) => has_rust_target(target),
            Found::PythonModule(name) => has_python_module(name),
            Found::Go { least } => match find_program("go") {
                Some(program) => return self.too_old(&program, *least),
                None => false,
            },
            Found::Sandbox => return super::sandbox::lack(),
            Found::Processor(architecture) => {
                return self.other_processor(*architecture, std::env::consts::ARCH);
            }
        };
        (!is_there).then(|| Lack {
            said: format!("`{}` is not installed: it {}", self.name, self.why),
            cause: None,
            remedy: self.remedy.to_string(),
        })
    }

    /// An older `go` does not know toolchains, and would say so only after it has fetched a module
    /// that needs a newer one.
    fn too_old(&self, program: &Path, least: (u32, u32)) -> Option<Lack> {
        let output = Command::new(program).arg("version").stdin(Stdio::null()).output();
        let said = output.map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        );
        let (major, minor) = least;
        let fits = go_version(&said).is_some_and(|version| version >= least);
        (!fits).then(|| Lack {
            said: format!("`go` is older than {major}.{minor}, or does not run: it {}", self.why),
            cause: Some(said),
            remedy: self.remedy.to_string(),
        })
    }

    fn other_processor(&self, wanted: Architecture, found: &str) -> Option<Lack> {
        (wanted.machine() != found).then(|| Lack {
            said: format!("this machine's processor is {found}: `{wanted}` {}", self.why),
            cause: None,
            remedy: self.remedy.to_string(),
        })
    }

    /// The tool as `doctor --json` shows it.
    pub(super) fn row(&self, lack: Option<&Lack>) -> serde_json::Value {
        let (reason, remedy) = (lack.map(|lack| &lack.said), lack.map(|lack| &lack.remedy));
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

/// Major and minor version in `go version go1.19.8 linux/amd64`.
fn go_version(said: &str) -> Option<(u32, u32)> {
    let version = said.split(' ').find_map(|word| {
        word.strip_prefix("go").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })?;
    let mut parts = version.split('.');
    let number =
        |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    Some((number(parts.next()?)?, parts.next().and_then(number).unwrap_or_default()))
}

/// The program's path. Debian leaves the system's own programs out of an ordinary user's `PATH`;
/// they run all the same.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Whether the compiler that `cargo` would use here has the target's library. rustup keeps every
/// toolchain in one folder.
fn has_rust_target(target: &str) -> bool {
    let Some(sysroot) = super::install::rust_sysroot() else { return false };
    sysroot.join("lib/rustlib").join(target).join("lib").is_dir()
}

/// Whether a Python of `PATH` has a module: Debian's own or pip's, or one that pyenv keeps beside
/// others.
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
        assert_eq!(lack.said, "`go` is older than 1.21, or does not run: it fetches Go modules");
        assert_eq!(lack.cause.as_deref(), Some("go version go1.19.8 linux/amd64"));
        assert_eq!(tool.too_old(&old, (1, 19)), None);
    }

    #[test]
    fn another_processor_is_named() {
        let tool = Tool::other("amd64", "runs the steps of a build", "build on another machine");
        assert_eq!(tool.other_processor(Architecture::Amd64, "x86_64"), None);
        let lack = tool.other_processor(Architecture::Amd64, "aarch64").unwrap();
        assert_eq!(
            lack.said,
            "this machine's processor is aarch64: `amd64` runs the steps of a build"
        );
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
        assert!(
            has_rust_target(concat!("x86_64", "-unknown-linux-gnu"))
                || has_rust_target("aarch64-unknown-linux-gnu")
        );
        assert!(!has_rust_target("no-such-target"));
    }
}
