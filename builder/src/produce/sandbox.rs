//! The sandbox of a build: a root of locked Debian packages, the locked toolchains, and the scripts
//! that run in it.

use crate::engine::action::{Action, InputTree, SandboxRoot, Toolchain};
use crate::engine::store::Store;
use crate::engine::toolchain;
use crate::error::Result;
use crate::plan::Lock;
use crate::report::Report;
use std::collections::BTreeMap;

/// The time in files with timestamps: 2020-01-01, in seconds since 1970. It is not the epoch of the
/// lock, so that a new lock with the same inputs reuses cached results.
pub const STEP_TIME: u64 = 1_577_836_800;

/// The unpacked root and toolchains.
pub struct Sandbox {
    root: SandboxRoot,
    go: Toolchain,
    /// `None` if the lock has no Rust toolchain.
    rust: Option<Toolchain>,
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
    /// Unpacks the root and the toolchains of a lock, unless the store has them unpacked.
    ///
    /// # Errors
    /// The store lacks a package or toolchain, or it cannot be unpacked.
    pub fn unpack(store: &Store, report: &Report, lock: &Lock) -> Result<Self> {
        let step = report.step("sandbox");
        step.doing("unpacking packages and toolchains");
        let packages = lock
            .sandbox
            .packages
            .iter()
            .map(|package| store.locked(&package.sha256))
            .collect::<Result<Vec<_>>>()?;
        let rust = lock.toolchain.rust.as_ref().map(|rust| toolchain::rust(store, &rust.sha256));
        Ok(Sandbox {
            root: SandboxRoot::unpack(store, &packages)?,
            go: toolchain::go(store, &store.locked(&lock.toolchain.go.sha256)?)?,
            rust: rust.transpose()?,
        })
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
            Compiler::Rust => self.rust.iter().cloned().collect(),
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
