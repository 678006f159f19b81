//! Compilers: each turns locked sources into an action. What they run are the scripts beside them.

pub mod binary;
pub mod cargo;
pub mod go;
pub mod kernel;

use crate::engine::action::{Action, InputTree, Toolchain};
use crate::engine::sandbox::SandboxRoot;
use crate::engine::store::Store;
use crate::engine::toolchain;
use crate::error::Result;
use crate::plan::Lock;
use crate::report::Report;
use std::collections::BTreeMap;

/// What an action sees beside its inputs: the root made of locked packages, and the toolchains.
#[derive(Clone)]
pub struct Sandbox {
    /// The root.
    pub root: SandboxRoot,
    /// The Go toolchain, mounted for Go's actions alone.
    pub go: Toolchain,
    /// The Rust toolchain, mounted for cargo's actions alone; none where the lock has none.
    pub rust: Option<Toolchain>,
}

/// The time that steps write where a format wants one: 2020-01-01, in seconds since 1970. It is not
/// the epoch of the lock, so that a step whose inputs a new lock has too is found in the store.
pub const STEP_TIME: u64 = 1_577_836_800;

/// A sandbox with the toolchains that an action asked for.
pub struct Equipped<'a> {
    sandbox: &'a Sandbox,
    toolchains: Vec<Toolchain>,
}

impl Sandbox {
    /// Unpacks the root and the toolchains of a lock, each once.
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

    /// With the Go toolchain at `/toolchain/go`.
    pub fn with_go(&self) -> Equipped<'_> {
        Equipped { sandbox: self, toolchains: vec![self.go.clone()] }
    }

    /// With the Rust toolchain at `/toolchain/rust`.
    pub fn with_rust(&self) -> Equipped<'_> {
        Equipped { sandbox: self, toolchains: self.rust.iter().cloned().collect() }
    }

    /// An action that needs no toolchain besides the root's. See [`Equipped::script`].
    #[expect(
        clippy::too_many_arguments,
        reason = "an action is these seven things, and every caller names each of them"
    )]
    pub fn script(
        &self,
        store: &Store,
        name: String,
        script: &str,
        args: &[String],
        env: BTreeMap<String, String>,
        input: InputTree,
        outputs: &[&str],
    ) -> Result<Action> {
        Equipped { sandbox: self, toolchains: Vec::new() }
            .script(store, name, script, args, env, input, outputs)
    }
}

impl Equipped<'_> {
    /// An action that runs `script` with bash and `args` in `/build`, where `input` is. It stops at
    /// the first command that fails.
    #[expect(
        clippy::too_many_arguments,
        reason = "an action is these seven things, and every caller names each of them"
    )]
    pub fn script(
        self,
        store: &Store,
        name: String,
        script: &str,
        args: &[String],
        mut env: BTreeMap<String, String>,
        mut input: InputTree,
        outputs: &[&str],
    ) -> Result<Action> {
        input.add_file("script.sh", store.put_bytes(script.as_bytes())?, false)?;
        env.insert("SOURCE_DATE_EPOCH".into(), STEP_TIME.to_string());
        let argv = ["/bin/bash", "-euo", "pipefail", "/build/script.sh"]
            .into_iter()
            .map(str::to_owned)
            .chain(args.iter().cloned());
        Ok(Action {
            name,
            argv: argv.collect(),
            env,
            input,
            outputs: outputs.iter().map(|output| (*output).to_owned()).collect(),
            root: self.sandbox.root.clone(),
            toolchains: self.toolchains,
        })
    }
}
