//! The time of a step that does nothing, in the sandbox of the recipe: here, and on a service.

use crate::image::{self, RECIPE};
use crate::remote::casd::Casd;
use crate::site::Site;
use osbuild::engine::action::{Action, InputTree, SandboxRoot};
use osbuild::engine::digest::Digest;
use osbuild::engine::executor::{Executor, Rebuild};
use osbuild::engine::remote::{Mode, Remote, Trust};
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{DebianPackage, Lock};
use osbuild_remote::Access;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How many steps run here to measure the time of one.
const HERE: u32 = 20;

/// How many steps a service runs. Each may take seconds.
const THERE: u32 = 10;

/// Steps that do nothing.
pub struct Nothing<'a> {
    site: &'a Site<'a>,
    store: &'a Store,
    root: SandboxRoot,
    logs: TempDir,
}

impl<'a> Nothing<'a> {
    /// Steps in the sandbox of the recipe, which is unpacked.
    ///
    /// # Errors
    /// The store lacks a package, or the lock is malformed.
    pub fn of(site: &'a Site<'a>, store: &'a Store) -> Result<Self> {
        let lock: Lock = image::lock(site, RECIPE)?;
        let digest = |package: &DebianPackage| {
            Digest::parse(&package.sha256, package.size)
                .ok_or_else(|| Error::lock("the lock has a malformed digest"))
        };
        let packages = lock.sandbox.packages.iter().map(digest).collect::<Result<Vec<_>>>()?;
        let root = SandboxRoot::unpack(store, &packages)?;
        let logs = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        Ok(Nothing { site, store, root, logs })
    }

    /// The time of a step on this machine.
    ///
    /// # Errors
    /// The sandbox cannot run it.
    pub fn here(&self) -> Result<Duration> {
        let executor = self.executor().rebuilding(Rebuild::Everything);
        let action = self.action("here".to_owned());
        executor.run(&action)?;
        let started = Instant::now();
        (0..HERE).try_for_each(|_| executor.run(&action).map(drop))?;
        Ok(started.elapsed() / HERE)
    }

    /// The time of a step on a service that has the files of its root. The service keeps results,
    /// so each step is another one.
    ///
    /// # Errors
    /// The service does not execute one of the steps.
    pub fn there(&self) -> Result<Duration> {
        let service = Casd::executing(1)?;
        let address = service.url().parse().or_build(|| "the address is malformed".to_owned())?;
        let report = self.site.report.clone();
        let remote = Arc::new(Remote::new(address, &Access::default(), Mode::Execute, report)?);
        let executor = self.executor().sharing(Some(Arc::clone(&remote)), Trust::Everywhere);
        // No other measurement may have left a result of these in the store.
        let run = format!("{:?}", std::time::SystemTime::now());
        let step = |count: u32| executor.run(&self.action(format!("{run} {count}"))).map(drop);
        step(0)?;
        let started = Instant::now();
        (1..=THERE).try_for_each(step)?;
        let time = started.elapsed() / THERE;
        match remote.used().executed {
            executed if executed == THERE as usize + 1 => Ok(time),
            executed => {
                let problem = format!("the service executed {executed} of {} steps", THERE + 1);
                Err(Error::build(problem))
            }
        }
    }

    fn executor(&self) -> Executor {
        let (store, report) = (self.store.clone(), self.site.report.clone());
        Executor::new(store, report, 1, self.logs.path().to_owned())
    }

    /// A step that does nothing, and differs from others by this text.
    fn action(&self, text: String) -> Action {
        Action {
            name: "nothing".to_owned(),
            argv: vec!["/usr/bin/true".to_owned()],
            env: BTreeMap::from([("STEP".to_owned(), text)]),
            input: InputTree::new(),
            outputs: Vec::new(),
            root: self.root.clone(),
            toolchains: Vec::new(),
        }
    }
}
