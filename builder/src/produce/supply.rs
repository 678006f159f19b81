//! Fetches what a step needs when it has to run: a step whose result is known needs nothing. So a
//! build that finds its results in a cache reaches no registry and unpacks no toolchain.

use super::build::Build;
use crate::engine::action::{Action, ActionResult, InputTree, SandboxRoot};
use crate::engine::digest::Digest;
use crate::error::Result;
use crate::plan::{Locked, Product};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Held while sources are fetched. The ecosystems' clients use all of the network that there is,
/// and wait for each other where they share a cache.
static FETCHING: Mutex<()> = Mutex::new(());

/// The name of the output of an [`Extract`].
const EXTRACTED: &str = "extracted";

/// The root in the action of an [`Extract`], which runs in no sandbox.
const INSIDE: &[u8] = b"this process";

/// Bytes that this process takes out of locked sources. They are the result of an action, so that
/// caches and other machines can have them instead of the sources.
pub struct Extract {
    /// The name of the step.
    pub name: String,
    /// The rule that it follows, with a version: raise it when the same sources and arguments give
    /// other bytes.
    pub rule: &'static str,
    /// The other values that determine the bytes.
    pub arguments: Vec<String>,
    /// The sources.
    pub sources: Vec<Digest>,
}

impl Extract {
    fn action(&self) -> Result<Action> {
        let mut input = InputTree::new();
        for (index, source) in self.sources.iter().enumerate() {
            input.add_file(&format!("source-{index}"), *source, false)?;
        }
        let argv = ["osbuild", self.rule].map(str::to_owned).into_iter();
        Ok(Action {
            name: self.name.clone(),
            argv: argv.chain(self.arguments.iter().cloned()).collect(),
            env: BTreeMap::new(),
            input,
            outputs: vec![EXTRACTED.to_owned()],
            root: SandboxRoot { key: Digest::of(INSIDE), path: "/nonexistent".into() },
            toolchains: Vec::new(),
        })
    }
}

impl<P: Product<Locked>> Build<'_, P> {
    /// Takes bytes out of sources by `work`, or finds them in the store or a cache. `work` runs
    /// when the store has the sources.
    ///
    /// # Errors
    /// The error of `work`, or a source cannot be fetched.
    pub fn extract(&self, extract: &Extract, work: &dyn Fn() -> Result<Vec<u8>>) -> Result<Digest> {
        let work = || {
            self.fetch(&extract.sources.iter().copied().collect())?;
            work()
        };
        let result: ActionResult = self.executor.run_inside(&extract.action()?, &work)?;
        result.output(EXTRACTED)
    }

    /// Puts what an action needs into the store: those of its inputs that are sources, its root,
    /// its toolchains, and the launcher if a service may execute it.
    pub(super) fn supply(&self, action: &Action) -> Result<()> {
        let store = self.options.store;
        let mut folders = self.sandbox.sources(store, action);
        let is_launched = self.executor.service().is_some();
        if is_launched {
            folders.extend(self.sandbox.sources_of_launcher(store));
        }
        self.fetch(&(&action.input.files() | &folders))?;
        if is_launched {
            self.sandbox.unpack_launcher(store)?;
        }
        self.sandbox.unpack(store, self.options.report, action)
    }

    /// Fetches those of these digests that are sources and that the store lacks.
    fn fetch(&self, needed: &BTreeSet<Digest>) -> Result<()> {
        let store = self.options.store;
        let lacking = || needed.iter().filter(|digest| !store.contains(digest));
        if lacking().next().is_none() {
            return Ok(());
        }
        let _alone = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
        let lacking = lacking().map(Digest::hex).collect::<BTreeSet<_>>();
        self.fetcher.fetch_those(self.plan, &|source| lacking.contains(&source.digest))
    }
}
