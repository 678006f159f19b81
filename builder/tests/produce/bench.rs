//! A temporary store, and a sandbox root that has only a static shell.

use osbuild::engine::action::{Action, InputTree, SandboxRoot};
use osbuild::engine::digest::Digest;
use osbuild::engine::executor::Executor;
use osbuild::engine::launcher::Launcher;
use osbuild::engine::store::Store;
use osbuild::error::{Error, Result};
use osbuild::report::{Color, Report, Verbosity};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The programs of the root, all of them links to the shell.
const PROGRAMS: [&str; 14] = [
    "cat", "chmod", "dd", "env", "grep", "kill", "ln", "ls", "mkdir", "nproc", "sh", "sleep",
    "touch", "true",
];

/// The root's `gcc`, which prints where it is.
const GCC: &str = "#!/usr/bin/sh\necho this is the gcc of the root\n";

pub struct Bench {
    store: Store,
    directory: PathBuf,
    _owner: Option<TempDir>,
}

impl Bench {
    /// A bench in a temporary directory.
    pub fn new() -> Bench {
        let owner = tempfile::tempdir().unwrap();
        let bench = Bench::at(owner.path());
        Bench { _owner: Some(owner), ..bench }
    }

    /// A bench in an existing directory.
    pub fn at(directory: &Path) -> Bench {
        let store = Store::open(directory.join("store")).unwrap();
        Bench { store, directory: directory.to_owned(), _owner: None }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn report(&self) -> Report {
        Report::new(Verbosity::Quiet, Color::Never)
    }

    pub fn executor(&self) -> Executor {
        Executor::new(self.store.clone(), self.report(), 1, self.directory.join("logs"))
    }

    /// A shell script as an action.
    pub fn script(&self, script: &str, outputs: &[&str]) -> Action {
        let key = Digest::of(b"busybox");
        let path = self.store.tree(&key, fill).unwrap();
        Action {
            name: "a test/step".to_owned(),
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            env: BTreeMap::new(),
            input: InputTree::new(),
            outputs: outputs.iter().map(|&output| output.to_owned()).collect(),
            root: SandboxRoot { key, path },
            toolchains: Vec::new(),
        }
    }

    /// The launcher, with the programs of this machine, which is a Debian system.
    pub fn launcher(&self) -> Launcher {
        let key = Digest::of(b"launcher");
        let fill = |to: &Path| Launcher::take(Path::new("/"), to);
        Launcher { key, path: self.store.tree(&key, fill).unwrap() }
    }

    /// Runs a script and returns its output.
    pub fn output(&self, script: &str) -> String {
        let result =
            self.executor().run(&self.script(&format!("({script}) >out 2>&1"), &["out"])).unwrap();
        String::from_utf8(self.store.read(&result.output("out").unwrap()).unwrap()).unwrap()
    }

    /// Runs a script that fails to make `out`, and returns the error.
    pub fn fails(&self, script: &str) -> Error {
        self.executor().run(&self.script(script, &["out"])).unwrap_err()
    }
}

fn fill(root: &Path) -> Result<()> {
    let programs = root.join("usr/bin");
    fs::create_dir_all(&programs).unwrap();
    for name in ["build", "dev", "proc", "tmp", "toolchain"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    let shell = fs::read("/bin/busybox").expect("Debian's package busybox-static is installed");
    for (name, content) in [("busybox", shell), ("gcc", GCC.into())] {
        fs::write(programs.join(name), content).unwrap();
        fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in PROGRAMS {
        symlink("busybox", programs.join(name)).unwrap();
    }
    Ok(())
}
