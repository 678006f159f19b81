//! A build from a shared cache, and a simulation of the same build on many workers.

mod recorded;
mod server;
mod simulate;

use super::Row;
use crate::image::{self, RECIPE};
use crate::site::Site;
use osbuild::checkout::Checkout;
use osbuild::engine::action::{Action, InputTree, SandboxRoot};
use osbuild::engine::digest::Digest;
use osbuild::engine::executor::{Executor, Made, Rebuild, Workers};
use osbuild::engine::remote::Trust;
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, Result};
use osbuild::pipeline::{self, Order};
use osbuild::plan::{Date, Lock, Strictness, resolve};
use osbuild::produce::build::BuildOptions;
use osbuild::produce::fetch::SourceOrigin;
use osbuild::produce::out::Out;
use osbuild_remote::{Access, BlobId, Cache, Retry, Source};
use recorded::Recorded;
use serde_json::Value;
use server::Server;
use simulate::{Limit, simulate};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes that a second build may send when nothing has changed.
const MAX_SENT: u64 = 1_000_000;

/// The time of a build that finds everything in its store.
const NO_OP: Duration = Duration::from_millis(100);

/// The numbers of workers to simulate.
const WORKERS: [usize; 3] = [2, 8, 64];

/// How many steps that do nothing are run to measure the time of one.
const ROUNDS: u32 = 20;

/// A user with an empty store.
struct Newcomer<'a> {
    site: &'a Site<'a>,
    home: tempfile::TempDir,
    project: PathBuf,
    url: String,
}

/// A build of a [`Newcomer`].
struct Ran {
    time: Duration,
    remote: Value,
}

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let store = site.store()?;
    let project = site.root.join("out/ci/bench-farm");
    site.copy_to(&project)?;
    let made = steps(site, &store, &project)?;
    let steps = recorded::read(&store, &made)?;
    let server = Server::start()?;
    fill(&server, &store, &steps)?;

    let mut rows = Vec::new();
    let newcomer = Newcomer::new(site, project, server.url())?;
    let cold = newcomer.build("cache-write")?;
    let received = cold.remote["bytes-received"].as_u64().unwrap_or_default();
    let copied = copy(&store, &steps)?;
    rows.push(Row::size("cold build from a cache: bytes received", received));
    rows.push(Row::time("time to copy the same files", copied));
    rows.push(Row::time("cold build from a cache", cold.time).below(copied * 3 / 2));
    let sent = cold.remote["bytes-sent"].as_u64().unwrap_or(u64::MAX);
    rows.push(Row::size("bytes sent when nothing has changed", sent).less_than(MAX_SENT));
    let again = newcomer.build("cache-write")?.time.min(newcomer.build("cache-write")?.time);
    rows.push(Row::time("no-op build with a cache", again).below(NO_OP));
    let overhead = overhead(site, &store)?;
    rows.push(Row::time("a step that does nothing, here", overhead));
    rows.extend(simulated(&steps, overhead));
    Ok(rows)
}

/// The build on numbers of workers, and what limits it.
fn simulated(steps: &[Recorded], overhead: Duration) -> Vec<Row> {
    let tasks = recorded::tasks(steps);
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

/// Builds the recipe in `project` with the user's store, and returns its steps.
fn steps(site: &Site, store: &Store, project: &Path) -> Result<BTreeMap<String, Made>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let files = Checkout { root: project.to_owned() }.read()?;
    let plan = resolve(&files, RECIPE, Date::from_unix(now), Strictness::Build)?;
    let plan = plan.lock(image::lock(site, RECIPE)?)?;
    let options = BuildOptions {
        project,
        store,
        report: site.report,
        origin: SourceOrigin::Registries,
        rebuild: Rebuild::Nothing,
        remote: None,
        trust: Trust::Everywhere,
        jobs: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        workers: Workers::default(),
        signer: None,
        carried: None,
    };
    let order = Order { options, plan: &plan, out: Out::open(project, RECIPE)? };
    let built = pipeline::build(&[order])?.pop();
    let built = built.ok_or_else(|| Error::build("a build made no image"))?;
    fs::remove_dir_all(project.join("out")).or_build(|| "cannot remove an image".to_owned())?;
    Ok(built.steps.made)
}

/// Gives a server all results and their files.
fn fill(server: &Server, store: &Store, steps: &[Recorded]) -> Result<()> {
    let address = server.url().parse().or_build(|| "the address is malformed".to_owned())?;
    let cannot = || "cannot fill the cache".to_owned();
    let cache = Cache::new(&address, &Access::default(), Retry::default()).or_build(cannot)?;
    let blob = |digest: &Digest| BlobId::new(digest.hex(), digest.size());
    for step in steps {
        let blobs: Vec<BlobId> = files(step).iter().chain([&step.action]).map(blob).collect();
        let mut source = |blob: &BlobId| {
            let digest = Digest::parse(&blob.hash, blob.length());
            let digest = digest.ok_or(std::io::ErrorKind::InvalidInput)?;
            store.path(&digest).map(Source::File).map_err(std::io::Error::other)
        };
        cache.write(&blobs, &mut source).or_build(cannot)?;
        cache.put_result(&blob(&step.action), &step.result.encode()).or_build(cannot)?;
    }
    Ok(())
}

/// The files of a step's result.
fn files(step: &Recorded) -> BTreeSet<Digest> {
    let outputs = step.result.outputs.values().map(|output| output.digest);
    outputs.chain(step.result.log).collect()
}

/// The time to copy the files of all results.
fn copy(store: &Store, steps: &[Recorded]) -> Result<Duration> {
    let to = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let all: BTreeSet<Digest> = steps.iter().flat_map(files).collect();
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

impl<'a> Newcomer<'a> {
    fn new(site: &'a Site<'a>, project: PathBuf, url: String) -> Result<Self> {
        let home = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        Ok(Newcomer { site, home, project, url })
    }

    fn build(&self, mode: &str) -> Result<Ran> {
        let mut osbuild = self.site.osbuild()?;
        osbuild.current_dir(&self.project).env("XDG_CACHE_HOME", self.home.path());
        osbuild.args(["build", RECIPE, "--unsigned", "--yes", "--json", "--remote", &self.url]);
        osbuild.args(["--remote-mode", mode]);
        let started = Instant::now();
        let ran = self.site.finish("bench-farm", &mut osbuild)?;
        let time = started.elapsed();
        let json = ran.output.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let json = json.ok_or_else(|| ran.failure("`osbuild build --json` printed no JSON"))?;
        Ok(Ran { time, remote: json["remote"].clone() })
    }
}
