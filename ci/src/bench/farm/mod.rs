//! A build from a shared cache, and a simulation of the same build on many workers.

mod simulate;
mod tasks;

use super::Row;
use crate::image::{self, RECIPE};
use crate::remote::casd::Casd;
use crate::remote::newcomer::Newcomer;
use crate::remote::recorded::{self, Recorded};
use crate::site::Site;
use osbuild::engine::action::{Action, InputTree, SandboxRoot};
use osbuild::engine::digest::Digest;
use osbuild::engine::executor::{Executor, Rebuild};
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Lock;
use simulate::{Limit, simulate};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};
use tasks::tasks;

/// Bytes that a second build may send when nothing has changed.
const MAX_SENT: u64 = 1_000_000;

/// The time of a build that finds everything in its store.
const NO_OP: Duration = Duration::from_millis(100);

/// The numbers of workers to simulate.
const WORKERS: [usize; 3] = [2, 8, 64];

/// How many steps that do nothing are run to measure the time of one.
const ROUNDS: u32 = 20;

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let store = site.store()?;
    let cache = Casd::cache()?;
    let newcomer = Newcomer::new(site)?;
    let steps = recorded::build(site, RECIPE, &newcomer.project())?;
    recorded::give(&steps, &store, &cache.url())?;

    let mut rows = Vec::new();
    let url = cache.url();
    let flags = ["--remote", &url, "--remote-mode", "cache-write", "--unsigned"];
    let build = || newcomer.build(RECIPE, &flags);
    let cold = build()?;
    let received = cold.remote["bytes-received"].as_u64().unwrap_or_default();
    let copied = copy(&store, &steps)?;
    rows.push(Row::size("cold build from a cache: bytes received", received));
    rows.push(Row::time("time to copy the same files", copied));
    rows.push(Row::time("cold build from a cache", cold.time).below(copied * 3 / 2));
    let sent = cold.remote["bytes-sent"].as_u64().unwrap_or(u64::MAX);
    rows.push(Row::size("bytes sent when nothing has changed", sent).less_than(MAX_SENT));
    let again = build()?.time.min(build()?.time);
    rows.push(Row::time("no-op build with a cache", again).below(NO_OP));
    let overhead = overhead(site, &store)?;
    rows.push(Row::time("a step that does nothing, here", overhead));
    rows.extend(simulated(&steps, overhead));
    Ok(rows)
}

/// The build on numbers of workers, and what limits it.
fn simulated(steps: &[Recorded], overhead: Duration) -> Vec<Row> {
    let tasks = tasks(steps);
    let one = simulate(&tasks, 1, overhead);
    let mut rows = vec![Row::time("simulated: all steps, one after another", one.work)];
    let name = |step: &usize| tasks[*step].name.as_str();
    let chain = one.chain.steps.iter().map(name).collect::<Vec<_>>().join(", ");
    rows.push(Row::time(format!("simulated: longest chain ({chain})"), one.chain.time));
    for workers in WORKERS {
        let schedule = simulate(&tasks, workers, overhead);
        let limit = match schedule.limit() {
            Limit::Chain => "the longest chain",
            Limit::Workers => "their number",
        };
        let speed_up = schedule.speed_up();
        let name = format!("simulated: {workers} workers, {speed_up:.1} times, limit {limit}");
        rows.push(Row::time(name, schedule.makespan));
    }
    rows
}

/// The time to copy the files of all results.
fn copy(store: &Store, steps: &[Recorded]) -> Result<Duration> {
    let to = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let all: BTreeSet<Digest> = steps.iter().flat_map(Recorded::files).collect();
    let started = Instant::now();
    for file in &all {
        let copy = to.path().join(file.hex());
        fs::copy(store.path(file)?, copy).or_build(|| "cannot copy a file".to_owned())?;
    }
    Ok(started.elapsed())
}

/// The time of a step that does nothing, in the sandbox of the recipe.
fn overhead(site: &Site, store: &Store) -> Result<Duration> {
    let lock: Lock = image::lock(site, RECIPE)?;
    let digest = |package: &osbuild::plan::DebianPackage| {
        Digest::parse(&package.sha256, package.size)
            .ok_or_else(|| Error::lock("the lock has a malformed digest"))
    };
    let packages = lock.sandbox.packages.iter().map(digest).collect::<Result<Vec<_>>>()?;
    let root = SandboxRoot::unpack(store, &packages)?;
    let logs = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let executor = Executor::new(store.clone(), site.report.clone(), 1, logs.path().to_owned())
        .rebuilding(Rebuild::Everything);
    let action = Action {
        name: "nothing".to_owned(),
        argv: vec!["/usr/bin/true".to_owned()],
        env: BTreeMap::new(),
        input: InputTree::new(),
        outputs: Vec::new(),
        root,
        toolchains: Vec::new(),
    };
    executor.run(&action)?;
    let started = Instant::now();
    (0..ROUNDS).try_for_each(|_| executor.run(&action).map(drop))?;
    Ok(started.elapsed() / ROUNDS)
}
