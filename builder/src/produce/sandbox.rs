//! The sandbox of a build: a root of locked Debian packages, the locked toolchains, and the scripts
//! that run in it.

use super::locked;
use crate::engine::action::{Action, InputTree, SandboxRoot, Toolchain};
use crate::engine::digest::Digest;
use crate::engine::launcher::Launcher;
use crate::engine::store::Store;
use crate::engine::toolchain;
use crate::error::Result;
use crate::plan::{Lock, RustToolchain};
use crate::report::Report;
use std::collections::{BTreeMap, BTreeSet};

/// The time in files with timestamps: 2020-01-01, in seconds since 1970. It is not the epoch of the
/// lock, so that a new lock with the same inputs reuses cached results.
pub const STEP_TIME: u64 = 1_577_836_800;

/// The root and the toolchains. A step needs them when it runs, and not before.
pub struct Sandbox {
    root: SandboxRoot,
    /// The packages of the root.
    packages: Vec<Digest>,
    /// The packages of the launcher; none if the lock has no launcher.
    launcher: Vec<Digest>,
    go: Toolchain,
    /// The zip file of `go`.
    go_zip: Digest,
    /// The toolchain and its tar file; `None` if the lock has no Rust toolchain.
    rust: Option<(Toolchain, RustToolchain)>,
}

/// A step that runs a shell script of the builder.
pub struct Script<'a> {
    /// The name of the step.
    pub name: String,
    /// The script. bash runs it in `/build`, and stops at the first command that fails.
    pub text: &'a str,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables, besides the fixed ones and `SOURCE_DATE_EPOCH`.
    pub env: BTreeMap<String, String>,
    /// The files in `/build` when it starts.
    pub input: InputTree,
    /// The files that it makes, relative to `/build`.
    pub outputs: Vec<String>,
    /// The toolchain at `/toolchain`.
    pub compiler: Compiler,
}

/// The toolchain of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// None: the script uses only the programs of the root.
    Root,
    /// Go, at `/toolchain/go`.
    Go,
    /// Rust, at `/toolchain/rust`.
    Rust,
}

impl Sandbox {
    /// The sandbox of a lock. Nothing of it need be in the store.
    ///
    /// # Errors
    /// The lock has something other than a digest in the place of one.
    pub fn of(store: &Store, lock: &Lock) -> Result<Self> {
        let [packages, launcher] = [&lock.sandbox, &lock.launcher]
            .map(|list| list.packages.iter().map(locked::package).collect::<Result<Vec<_>>>());
        let (packages, launcher) = (packages?, launcher?);
        let root = SandboxRoot::of(store, &packages);
        let go_zip = locked::go(&lock.toolchain.go)?;
        let go = toolchain::go(store, &go_zip);
        let rust = |rust: &RustToolchain| (toolchain::rust(store, &rust.sha256), rust.clone());
        let rust = lock.toolchain.rust.as_ref().map(rust);
        Ok(Sandbox { root, packages, launcher, go, go_zip, rust })
    }

    /// The launcher of steps on a worker; `None` if the lock has no launcher.
    pub fn launcher(&self, store: &Store) -> Option<Launcher> {
        (!self.launcher.is_empty()).then(|| Launcher::of(store, &self.launcher))
    }

    /// The sources of the launcher, unless it is unpacked.
    pub fn sources_of_launcher(&self, store: &Store) -> BTreeSet<Digest> {
        match self.launcher(store) {
            Some(launcher) if store.find_tree(&launcher.key).is_none() => {
                self.launcher.iter().copied().collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Unpacks the launcher, if the lock has one. Errors are those of [`Launcher::unpack`].
    pub fn unpack_launcher(&self, store: &Store) -> Result<()> {
        match self.launcher.is_empty() {
            true => Ok(()),
            false => Launcher::unpack(store, &self.launcher).map(drop),
        }
    }

    /// The sources of those folders of an action that are not unpacked.
    pub fn sources(&self, store: &Store, action: &Action) -> BTreeSet<Digest> {
        let mut sources = BTreeSet::new();
        if store.find_tree(&self.root.key).is_none() {
            sources.extend(&self.packages);
        }
        for tool in lacking(store, action) {
            match &self.rust {
                Some((rust, archive)) if rust.key == tool.key => {
                    sources.extend(Digest::parse(&archive.sha256, archive.size));
                }
                _ => sources.extend([self.go_zip]),
            }
        }
        sources
    }

    /// Unpacks the root and the toolchains of an action, unless the store has them unpacked.
    ///
    /// # Errors
    /// The store lacks a package or toolchain, or it cannot be unpacked.
    pub fn unpack(&self, store: &Store, report: &Report, action: &Action) -> Result<()> {
        if store.find_tree(&self.root.key).is_none() {
            report.step("sandbox").doing("unpacking packages");
            SandboxRoot::unpack(store, &self.packages)?;
        }
        for tool in &action.toolchains {
            let is_unpacked = store.find_tree(&tool.key).is_some();
            let step = report.step(format!("toolchain {}", tool.name));
            match &self.rust {
                // An export leaves the tar file beside the unpacked toolchain.
                Some((rust, archive)) if rust.key == tool.key => {
                    if !is_unpacked || store.find(&archive.sha256).is_some() {
                        step.doing("unpacking");
                        toolchain::unpack_rust(store, &archive.sha256)?;
                    }
                }
                _ if is_unpacked => {}
                _ => {
                    step.doing("unpacking");
                    toolchain::unpack_go(store, &self.go_zip)?;
                }
            }
        }
        Ok(())
    }

    /// The action that runs `script`.
    ///
    /// # Errors
    /// The script has an input called `script.sh`, or the store cannot be written.
    pub fn action(&self, store: &Store, script: Script<'_>) -> Result<Action> {
        let Script { name, text, args, mut env, mut input, outputs, compiler } = script;
        input.add_file("script.sh", store.put_bytes(text.as_bytes())?, false)?;
        env.insert("SOURCE_DATE_EPOCH".into(), STEP_TIME.to_string());
        let bash = ["/bin/bash", "-euo", "pipefail", "/build/script.sh"].map(str::to_owned);
        let toolchains = match compiler {
            Compiler::Root => Vec::new(),
            Compiler::Go => vec![self.go.clone()],
            Compiler::Rust => self.rust.iter().map(|(rust, _)| rust.clone()).collect(),
        };
        Ok(Action {
            name,
            argv: bash.into_iter().chain(args).collect(),
            env,
            input,
            outputs,
            root: self.root.clone(),
            toolchains,
        })
    }
}

/// The toolchains of an action that are not unpacked.
fn lacking<'a>(store: &Store, action: &'a Action) -> impl Iterator<Item = &'a Toolchain> {
    action.toolchains.iter().filter(|tool| store.find_tree(&tool.key).is_none())
}
