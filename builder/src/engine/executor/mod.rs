//! Runs actions in a sandbox, or finds their results in the store or in a shared cache. No other
//! module starts processes of a build.

mod failure;
mod known;
mod log;
mod process;
mod processors;
mod rebuild;
mod steps;
mod there;
mod workers;

pub use known::Known;
pub use rebuild::Rebuild;
pub use steps::{Made, Steps};
pub use workers::Workers;

use super::action::{Action, ActionResult, Origin, OutputFile};
use super::bubblewrap::{self, Places};
use super::fs_error::{self, IoContext};
use super::launcher::Launcher;
use super::remote::{Remote, Trust};
use super::rules;
use super::stop::Stop;
use super::store::{Scratch, Store};
use crate::error::{Error, Result};
use crate::report::{Outcome, Report, Step};
use log::Log;
use process::Ended;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Runs actions on this machine.
pub struct Executor {
    store: Store,
    report: Report,
    jobs: usize,
    workers: Workers,
    logs: PathBuf,
    rebuild: Rebuild,
    /// The shared cache; `None` for a build without one.
    remote: Option<Arc<Remote>>,
    trust: Trust,
    /// Makes the input root the `/` of a step that the service executes.
    launcher: Option<Launcher>,
    /// How each action so far came to its result.
    steps: Mutex<Steps>,
}

impl Executor {
    /// An executor whose actions see `jobs` processors. It writes their logs into the directory
    /// `logs`.
    pub fn new(store: Store, report: Report, jobs: usize, logs: PathBuf) -> Self {
        let (workers, steps, remote, trust, launcher) = Default::default();
        Executor {
            store,
            report,
            jobs,
            workers,
            logs,
            rebuild: Rebuild::Nothing,
            remote,
            trust,
            launcher,
            steps,
        }
    }

    /// Shares processors and the request to stop with other executors.
    pub fn working_with(self, workers: Workers) -> Self {
        Executor { workers, ..self }
    }

    /// Reruns these steps although the store has their results, and compares both.
    pub fn rebuilding(self, rebuild: Rebuild) -> Self {
        Executor { rebuild, ..self }
    }

    /// Asks a shared cache for results that the store lacks, unless steps are to run again or only
    /// results of this machine count.
    pub fn sharing(self, remote: Option<Arc<Remote>>, trust: Trust) -> Self {
        Executor { remote, trust, ..self }
    }

    /// Executes actions also on services that run them in a folder, with the help of this launcher,
    /// which is in the store when an action runs.
    pub fn launching(self, launcher: Option<Launcher>) -> Self {
        Executor { launcher, ..self }
    }

    /// Checks that every step to be run again was among the actions so far.
    ///
    /// # Errors
    /// See [`Rebuild::check`].
    pub fn check_rebuilt(&self) -> Result<()> {
        self.rebuild.check(&self.steps().names())
    }

    /// The actions so far, and where their results came from.
    pub fn steps(&self) -> Steps {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The request that stops its running actions, for a [`super::graph::Graph`].
    pub fn stop(&self) -> Stop {
        self.workers.stop()
    }

    /// The result of an action whose inputs and folders are in the store. Errors are those of
    /// [`Executor::run_after`].
    pub fn run(&self, action: &Action) -> Result<ActionResult> {
        self.run_after(action, &|| Ok(()))
    }

    /// The result of an action: from the store, from another build that runs it at this moment,
    /// from the shared cache, or from running it. Only in the last case does it need its inputs,
    /// its root and its toolchains: `supply` puts them into the store.
    ///
    /// # Errors
    /// The error of `supply`, or the action failed, made no such output, or was stopped.
    pub fn run_after(
        &self,
        action: &Action,
        supply: &dyn Fn() -> Result<()>,
    ) -> Result<ActionResult> {
        self.find_or(action, &|step| {
            step.doing("waiting for its sources");
            supply()?;
            match self.execute_there(action, step)? {
                Some(made) => Ok(made),
                None => Ok((self.execute(action, step)?, Outcome::Ran)),
            }
        })
    }

    /// The result of an action that this process does itself, by `work`: it returns the bytes of
    /// the only output. Its command line names what `work` does, with a version.
    ///
    /// # Errors
    /// The error of `work`, or the store cannot be written.
    pub fn run_inside(
        &self,
        action: &Action,
        work: &dyn Fn() -> Result<Vec<u8>>,
    ) -> Result<ActionResult> {
        self.find_or(action, &|_| {
            let started = Instant::now();
            let digest = self.store.put_bytes(&work()?)?;
            let wall = started.elapsed();
            let output = OutputFile { digest, executable: false };
            let outputs = action.outputs.iter().map(|name| (name.clone(), output)).collect();
            let result = ActionResult { outputs, log: None, wall, cpu: wall, origin: None };
            Ok((result, Outcome::Ran))
        })
    }

    /// The result of an action that is known, or else what `make` makes.
    fn find_or(
        &self,
        action: &Action,
        make: &dyn Fn(&Step) -> Result<(ActionResult, Outcome)>,
    ) -> Result<ActionResult> {
        let key = action.digest();
        let again = self.rebuild.wants(&action.name);
        let counts = |result: &&ActionResult| !again && self.trusts(result);
        if let Some(result) = self.store.recall(&key).as_ref().filter(counts) {
            self.done(self.report.step(&action.name), action, result, Outcome::Stored);
            return Ok(result.clone());
        }
        self.stop().check()?;
        let step = self.report.step(&action.name);
        let _lock = self.store.lock(&format!("action-{key}"), || {
            step.doing("waiting for another build that runs the same step");
            self.stop().check()
        })?;
        // A rebuild compares digests, so a result counts that has its files only in a cache.
        let known = if again { self.store.record(&key) } else { self.store.recall(&key) };
        if let Some(result) = known.as_ref().filter(counts) {
            self.done(step, action, result, Outcome::Stored);
            return Ok(result.clone());
        }
        if let Some(remote) = self.cache() {
            step.doing("asking the cache");
            if let Some(result) = remote.fetch(&self.store, &key, action)? {
                self.store.remember(&key, &result)?;
                self.done(step, action, &result, Outcome::Fetched);
                return Ok(result);
            }
        }
        // Nothing here reads them again: they let people and programs look up the action.
        action.messages(&mut |message| self.store.put_bytes(message).map(drop))?;
        let (result, outcome) = make(&step)?;
        if outcome == Outcome::Ran {
            known.map_or(Ok(()), |known| self.compare(action, again, &known, &result))?;
        }
        self.store.remember(&key, &result)?;
        if let Some(remote) = self.remote.as_ref().filter(|_| outcome == Outcome::Ran) {
            step.doing("giving its result to the cache");
            remote.publish(&self.store, &key, action, &result)?;
        }
        self.done(step, action, &result, outcome);
        Ok(result)
    }

    /// Whether a stored result counts for this build.
    fn trusts(&self, result: &ActionResult) -> bool {
        self.trust == Trust::Everywhere || result.origin.is_none()
    }

    /// Compares a result that the store had with that of a run here. Other bytes of a cache are
    /// reported, as the new result takes their place.
    fn compare(
        &self,
        action: &Action,
        again: bool,
        known: &ActionResult,
        result: &ActionResult,
    ) -> Result<()> {
        let compared = rebuild::compare(action, known, result);
        match (&known.origin, compared) {
            (Some(origin), Err(_)) if !again => {
                let other = match origin {
                    Origin::Cache(address) => format!("those that came from the cache {address}"),
                    Origin::Service(address) => format!("on {address}"),
                };
                let name = &action.name;
                self.report.warning(format!("`{name}` made other bytes here than {other}"));
                Ok(())
            }
            (_, compared) => compared,
        }
    }

    fn execute(&self, action: &Action, step: &Step) -> Result<ActionResult> {
        step.doing("copying its inputs");
        let scratch = self.store.scratch()?;
        let build = lay_out(&self.store, action, &scratch)?;
        let mut log = Log::create(&self.logs, &action.name, step)?;
        let started = Instant::now();
        let command = sandbox(action, scratch.path());
        let processors = self.workers.processors(&self.store, self.jobs)?;
        let ended = process::run(command, processors, &self.stop(), &mut log)?;
        let wall = started.elapsed();
        self.stop().check()?;
        failure::check(&action.name, &ended, &log, scratch.path())?;
        let outputs = self.collect(action, &build).map_err(|error| error.log(log.tail()))?;
        let Ended { cpu, .. } = ended;
        let log = Some(self.store.put_file(log.path())?);
        Ok(ActionResult { outputs, log, wall, cpu, origin: None })
    }

    /// Ends a step with its line in the report.
    fn done(&self, step: Step, action: &Action, result: &ActionResult, outcome: Outcome) {
        self.ended(step, action, result, outcome, true);
    }

    /// Ends a step, whose files may not be in the store.
    fn ended(
        &self,
        step: Step,
        action: &Action,
        result: &ActionResult,
        outcome: Outcome,
        has_files: bool,
    ) {
        let made = Made { action: action.digest(), origin: result.origin.clone(), has_files };
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.add(&action.name, made, outcome);
        drop(steps);
        let size = result.outputs.values().map(|output| output.digest.size()).sum();
        let product = match result.outputs.keys().next() {
            Some(only) if result.outputs.len() == 1 => {
                only.rsplit('/').next().unwrap_or(only).to_owned()
            }
            _ => format!("{} files", result.outputs.len()),
        };
        step.done(&product, Some(size), outcome);
    }

    /// Moves the outputs into the store.
    fn collect(&self, action: &Action, build: &Path) -> Result<BTreeMap<String, OutputFile>> {
        let directory = File::open(build).at("open", build)?;
        let mut found = Vec::new();
        for output in &action.outputs {
            let path = build.join(output);
            // An action may make a link that leads out of `/build`; this process must not follow
            // it.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let file = match rustix::fs::openat2(&directory, output, flags, Mode::empty(), resolve)
            {
                Ok(file) => File::from(file),
                Err(rustix::io::Errno::NOENT) => {
                    return Err(no_output(action, output, "is not there"));
                }
                Err(error) => {
                    return Err(no_output(action, output, "cannot be opened").cause(error));
                }
            };
            let metadata = file.metadata().at("read", &path)?;
            if !metadata.is_file() {
                return Err(no_output(action, output, "is not a file"));
            }
            found.push((output, path, metadata.permissions().mode() & 0o100 != 0));
        }
        // The store takes the mode of a file away, and two outputs can be one file.
        let put = |(output, path, executable): (&String, PathBuf, bool)| {
            Ok((output.clone(), OutputFile { digest: self.store.adopt(&path)?, executable }))
        };
        found.into_iter().map(put).collect()
    }
}

fn no_output(action: &Action, output: &str, what: &str) -> Error {
    Error::build(format!("`{}` ended well, but its output `{output}` {what}", action.name))
}

/// The command that runs `action`, with the folders `build` and `tmp` of `scratch` as its `/build`
/// and `/tmp`.
fn sandbox(action: &Action, scratch: &Path) -> Command {
    let places = Places {
        root: action.root.path.clone(),
        tmp: scratch.join("tmp"),
        build: scratch.join("build"),
        toolchains: action.toolchains.iter().map(|tool| tool.path.clone()).collect(),
    };
    let mut command = Command::new("bwrap");
    command.args(bubblewrap::arguments(action, places));
    command
}

/// Makes `/build` and `/tmp` of the sandbox below `scratch`, and returns the path of `/build`.
fn lay_out(store: &Store, action: &Action, scratch: &Scratch) -> Result<PathBuf> {
    let build = scratch.path().join("build");
    fs_error::make_directory(&scratch.path().join("tmp"))?;
    fs_error::make_directory(&build)?;
    action.build_folder()?.write(&build, &mut |digest, path, executable| {
        store.copy_to(digest, path, rules::file_mode(executable))?;
        File::open(path).and_then(|file| file.set_modified(rules::input_time())).at("write", path)
    })?;
    Ok(build)
}
