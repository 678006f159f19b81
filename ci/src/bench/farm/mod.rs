//! A build from a shared cache, and a simulation of the same build on many workers.

mod overhead;
mod simulate;
mod tasks;

use super::Row;
use crate::image::RECIPE;
use crate::remote::casd::Casd;
use crate::remote::newcomer::Newcomer;
use crate::remote::recorded::{self, Recorded};
use crate::site::Site;
use osbuild::engine::digest::Digest;
use osbuild::engine::store::Store;
use osbuild::error::{Context, Result};
use simulate::{Limit, simulate};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};
use tasks::tasks;

/// Bytes that a second build may send when nothing has changed.
const MAX_SENT: u64 = 1_000_000;

/// The time of a build that finds everything in its store.
const NO_OP: Duration = Duration::from_millis(100);

/// The numbers of workers to simulate.
const WORKERS: [usize; 3] = [2, 8, 64];

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
    let copied = copy(&Store::open(newcomer.store())?, &steps)?;
    rows.push(Row::size("cold build from a cache: bytes received", received));
    rows.push(Row::size("the same, as files", copied.bytes));
    rows.push(Row::time("time to copy the same files", copied.time));
    rows.push(Row::time("cold build from a cache", cold.time).below(copied.time * 3 / 2));
    let sent = cold.remote["bytes-sent"].as_u64().unwrap_or(u64::MAX);
    rows.push(Row::size("bytes sent when nothing has changed", sent).less_than(MAX_SENT));
    let again = build()?.time.min(build()?.time);
    rows.push(Row::time("no-op build with a cache", again).below(NO_OP));
    drop(cache);
    let nothing = overhead::Nothing::of(site, &store)?;
    for (place, overhead) in [("here", nothing.here()?), ("on buildbox-casd", nothing.there()?)] {
        rows.push(Row::time(format!("a step that does nothing, {place}"), overhead));
        rows.extend(simulated(&steps, place, overhead));
    }
    Ok(rows)
}

/// The build on numbers of workers whose steps have the overhead of one at `place`, and what limits
/// it.
fn simulated(steps: &[Recorded], place: &str, overhead: Duration) -> Vec<Row> {
    let tasks = tasks(steps);
    let one = simulate(&tasks, 1, overhead);
    let all = format!("simulated, {place}: all steps, one after another");
    let mut rows = vec![Row::time(all, one.work)];
    let name = |step: &usize| tasks[*step].name.as_str();
    let chain = one.chain.steps.iter().map(name).collect::<Vec<_>>().join(", ");
    let name = format!("simulated, {place}: longest chain ({chain})");
    rows.push(Row::time(name, one.chain.time));
    for workers in WORKERS {
        let schedule = simulate(&tasks, workers, overhead);
        let limit = match schedule.limit() {
            Limit::Chain => "the longest chain",
            Limit::Workers => "their number",
        };
        let speed_up = schedule.speed_up();
        let name = format!("{workers} workers, {speed_up:.1} times, limit {limit}");
        rows.push(Row::time(format!("simulated, {place}: {name}"), schedule.makespan));
    }
    rows
}

/// A copy of files.
struct Copied {
    bytes: u64,
    time: Duration,
}

/// Copies those files of the results that a build has put into `store`. It has none of the compiled
/// dependencies of a program that a cache has.
fn copy(store: &Store, steps: &[Recorded]) -> Result<Copied> {
    let to = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let all: BTreeSet<Digest> = steps.iter().flat_map(Recorded::files).collect();
    let received = all.into_iter().filter(|file| store.contains(file)).collect::<Vec<_>>();
    let started = Instant::now();
    for file in &received {
        let copy = to.path().join(file.hex());
        fs::copy(store.path(file)?, copy).or_build(|| "cannot copy a file".to_owned())?;
    }
    Ok(Copied { time: started.elapsed(), bytes: received.iter().map(Digest::size).sum() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild::engine::action::{ActionResult, OutputFile};
    use std::collections::BTreeMap;

    #[test]
    fn files_that_a_build_has_not_received_are_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let received = store.put_bytes(b"program").unwrap();
        let step = |digest: Digest| {
            let output = OutputFile { digest, executable: false };
            let outputs = BTreeMap::from([("out".to_owned(), output)]);
            let result = ActionResult { outputs, ..ActionResult::default() };
            Recorded { name: String::new(), action: digest, result, inputs: BTreeSet::new() }
        };
        let copied = copy(&store, &[step(received), step(Digest::of(b"dependencies"))]).unwrap();
        assert_eq!(copied.bytes, received.size());
    }
}
