//! The context of one build, which its stages share.

use super::compile::Workspace;
use super::fetch::{Fetcher, Lists, SourceOrigin};
use super::locked;
use super::out::Out;
use super::sandbox::{Sandbox, Script};
use super::sign::Signer;
use crate::engine::action::ActionResult;
use crate::engine::digest::Digest;
use crate::engine::executor::{Executor, Rebuild, Steps, Workers};
use crate::engine::remote::{Remote, Trust};
use crate::engine::store::Store;
use crate::engine::toolchain;
use crate::error::{Error, Result};
use crate::plan::{Crate, Locked, NodeSpec, Plan, Product, Source};
use crate::report::Report;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

/// The options of a build.
pub struct BuildOptions<'a> {
    /// The root of the project.
    pub project: &'a Path,
    /// The workspace of the project.
    pub workspace: Workspace,
    /// The store of sources and results.
    pub store: &'a Store,
    /// The progress report.
    pub report: &'a Report,
    /// The origin of sources that the store lacks.
    pub origin: SourceOrigin,
    /// The steps that run although the store has their results.
    pub rebuild: Rebuild,
    /// The shared cache; `None` for a build without one.
    pub remote: Option<Arc<Remote>>,
    /// Which results count.
    pub trust: Trust,
    /// How many steps run at once.
    pub jobs: usize,
    /// The state that builds with their steps in one graph share.
    pub workers: Workers,
    /// The signer of slotboot, UKI and initramfs; `None` for an unsigned image.
    pub signer: Option<&'a dyn Signer>,
    /// The image that an installer carries.
    pub carried: Option<Carried>,
}

/// The image of another recipe that an installer carries.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The image, compressed with zstd, in the store.
    pub image: Digest,
    /// The certificate of its signer in PEM; `None` for an unsigned image.
    pub certificate: Option<Vec<u8>>,
}

/// A build that can start. Sources are fetched when a step that has to run needs them.
pub struct Build<'a, P = NodeSpec<Locked>> {
    /// Its options.
    pub options: &'a BuildOptions<'a>,
    /// Its plan.
    pub plan: &'a Plan<Locked, P>,
    pub(super) sandbox: Sandbox,
    pub(super) executor: Executor,
    pub(super) fetcher: Fetcher<'a>,
}

impl<'a, P: Product<Locked>> Build<'a, P> {
    /// Prepares a build, whose steps write their logs below `out`. If all of them run again, it
    /// fetches every source first, so that one that is gone ends the build at once.
    ///
    /// # Errors
    /// A source is gone, unreachable or not the locked one, or the store cannot be written.
    pub fn prepare(
        options: &'a BuildOptions<'a>,
        plan: &'a Plan<Locked, P>,
        out: &Out,
    ) -> Result<Self> {
        let BuildOptions { project, store, report, .. } = *options;
        let (origin, remote) = (options.origin.clone(), options.remote.clone());
        let fetcher = Fetcher { store, report, project, origin, remote, lists: Lists::default() };
        let all = options.rebuild == Rebuild::Everything;
        // Nothing can be named that contains a source of unknown size: crates of an older lock.
        fetcher.fetch_those(plan, &|source| all || source.size.is_none())?;
        let sandbox = Sandbox::of(store, plan.lock.get())?;
        let executor = Executor::new(store.clone(), report.clone(), options.jobs, out.logs())
            .working_with(options.workers.clone())
            .rebuilding(options.rebuild.clone())
            .sharing(options.remote.clone(), options.trust)
            .launching(sandbox.launcher(store));
        Ok(Build { options, plan, sandbox, executor, fetcher })
    }

    /// Runs a script in the sandbox, or finds its result in the store or a cache.
    pub fn run(&self, script: Script<'_>) -> Result<ActionResult> {
        let action = self.sandbox.action(self.options.store, script)?;
        self.executor.run_after(&action, &|| self.supply(&action))
    }

    /// Runs a script and one that is made of its result, or finds their results. Only the second
    /// one reads the files of the first one: they are neither made nor fetched if it has a result.
    /// Errors are those of [`Build::run`].
    pub fn run_both(
        &self,
        first: Script<'_>,
        second: &dyn Fn(&ActionResult) -> Result<Script<'static>>,
    ) -> Result<ActionResult> {
        let store = self.options.store;
        let first = self.sandbox.action(store, first)?;
        let run_first = || self.executor.run_after(&first, &|| self.supply(&first));
        let Some(known) = self.executor.known(&first)? else {
            return self.run(second(&run_first()?)?);
        };
        let action = self.sandbox.action(store, second(&known.result)?)?;
        let made = RefCell::new(None);
        let result = self.executor.run_after(&action, &|| {
            let first = made.borrow_mut().insert(run_first()?).clone();
            match first.outputs == known.result.outputs {
                true => self.supply(&action),
                false => Err(Error::build("the cache has other files than the step makes here")),
            }
        });
        match made.into_inner() {
            Some(made) if made.outputs != known.result.outputs => self.run(second(&made)?),
            Some(_) => result,
            None => result.inspect(|_| self.executor.pass(&first, &known)),
        }
    }

    /// The digest of a crate's archive.
    ///
    /// # Errors
    /// The lock has no size of it, and the store lacks it.
    pub fn crate_digest(&self, krate: &Crate) -> Result<Digest> {
        match self.plan.lock.get().crates.size(krate) {
            Some(size) => locked::digest(&krate.sha256, size),
            None => self.options.store.locked(&krate.sha256),
        }
    }

    /// Gives the shared cache the sources that are here, if a step ran: its result goes there as
    /// well, and a build that finds everything in the store asks for nothing.
    ///
    /// # Errors
    /// The user wants to stop.
    pub fn give_sources(&self) -> Result<()> {
        match &self.options.remote {
            Some(remote) if !self.executor.steps().ran.is_empty() => {
                let store = self.options.store;
                let digest = |source: Source| match source.size {
                    Some(size) => Digest::parse(&source.digest, size),
                    None => store.find(&source.digest),
                };
                let is_here = |digest: &Digest| {
                    store.contains(digest) || toolchain::has_rust(store, &digest.hex())
                };
                let sources = self.plan.lock.get().sources(&self.plan.requirements.crates);
                let sources = sources.into_iter().filter_map(digest).filter(is_here);
                let sources = sources.collect::<Vec<_>>();
                // The store has no file of an unpacked Rust toolchain. The lock keeps the restored
                // one until it is given.
                let restored = RefCell::new(Vec::new());
                let restore = |source: &Digest| {
                    restored.borrow_mut().push(toolchain::restore_rust(store, &source.hex())?);
                    Ok(())
                };
                remote.give_sources(store, &sources, &restore)
            }
            _ => Ok(()),
        }
    }

    /// Checks that every step to be run again was among the steps so far.
    ///
    /// # Errors
    /// A step that `rebuild` names does not exist.
    pub fn check_rebuilt(&self) -> Result<()> {
        self.executor.check_rebuilt()
    }

    /// Which steps ran so far, and which results came from the store.
    pub fn steps(&self) -> Steps {
        self.executor.steps()
    }
}
