//! Runs actions in a sandbox, or finds their results in the store. It alone starts the processes of a build.

mod bubblewrap;
mod failure;
mod log;
#[cfg(test)]
mod tests;

use super::action::{Action, ActionResult, OutputFile};
use super::disk::OnDisk;
use super::stop::Stop;
use super::store::{Scratch, Store};
use crate::error::{Error, Result};
use crate::report::{Outcome, Report, Step};
use bubblewrap::{Ended, Sandbox};
use log::Log;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs actions on this machine.
pub struct Executor {
    store: Store,
    report: Report,
    jobs: usize,
    logs: PathBuf,
    stop: Stop,
}

impl Executor {
    /// An executor that writes the log of each action into the directory `logs`. An action sees `jobs` processors.
    pub fn new(store: Store, report: Report, jobs: usize, logs: PathBuf) -> Self {
        Executor { store, report, jobs, logs, stop: Stop::default() }
    }

    /// What makes the actions that run now stop, for a [`super::graph::Graph`].
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The store that the results are in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where its steps are reported.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Finds the result of an action, waits for it when another build is at it, or runs it.
    pub fn run(&self, action: &Action) -> Result<ActionResult> {
        let key = action.digest();
        if let Some(result) = self.store.recall(&key) {
            done(self.report.step(&action.name), &result, Outcome::Stored);
            return Ok(result);
        }
        self.stop.check()?;
        let step = self.report.step(&action.name);
        let _lock = self.store.lock(&format!("action-{key}"), || {
            step.doing("waiting for another build that is at the same step");
            self.stop.check()
        })?;
        if let Some(result) = self.store.recall(&key) {
            done(step, &result, Outcome::Stored);
            return Ok(result);
        }
        action.put(&self.store)?;
        let result = self.execute(action, &step)?;
        self.store.remember(&key, &result)?;
        done(step, &result, Outcome::Ran);
        Ok(result)
    }

    fn execute(&self, action: &Action, step: &Step) -> Result<ActionResult> {
        step.doing("laying out its inputs");
        let scratch = self.store.scratch()?;
        let build = lay_out(&self.store, action, &scratch)?;
        let mut log = Log::create(&self.logs, &action.name, step)?;
        let began = Instant::now();
        let ended = Sandbox { action, scratch: scratch.path(), jobs: self.jobs }.run(&self.stop, &mut log)?;
        let wall = began.elapsed();
        self.stop.check()?;
        failure::check(action, &ended, &log, scratch.path())?;
        let outputs = self.collect(action, &build).map_err(|error| error.log(log.tail()))?;
        let Ended { cpu, .. } = ended;
        Ok(ActionResult { outputs, log: Some(self.store.put_file(log.path())?), wall, cpu })
    }

    /// Moves the outputs into the store.
    fn collect(&self, action: &Action, build: &Path) -> Result<BTreeMap<String, OutputFile>> {
        let directory = File::open(build).at("open", build)?;
        let mut outputs = BTreeMap::new();
        for output in &action.outputs {
            let path = build.join(output);
            // The sandbox may have made links; a link must not make this process read a file of the host.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let file = match rustix::fs::openat2(&directory, output, flags, Mode::empty(), resolve) {
                Ok(file) => File::from(file),
                Err(rustix::io::Errno::NOENT) => return Err(no_output(action, output, "is not there")),
                Err(error) => return Err(no_output(action, output, "cannot be opened").cause(error)),
            };
            let metadata = file.metadata().at("read", &path)?;
            if !metadata.is_file() {
                return Err(no_output(action, output, "is not a file"));
            }
            let digest = self.store.adopt(&path)?;
            outputs.insert(output.clone(), OutputFile { digest, executable: metadata.permissions().mode() & 0o100 != 0 });
        }
        Ok(outputs)
    }
}

fn no_output(action: &Action, output: &str, what: &str) -> Error {
    Error::build(format!("`{}` ended well, but its output `{output}` {what}", action.name))
}

/// Makes `/build` and `/tmp` of the sandbox, and gives the path of the former.
fn lay_out(store: &Store, action: &Action, scratch: &Scratch) -> Result<PathBuf> {
    let build = scratch.path().join("build");
    let directories = ["build", "build/home", "tmp"].iter().map(|name| scratch.path().join(name));
    let input = &action.input;
    for directory in directories {
        fs::create_dir_all(&directory).at("make the directory", &directory)?;
        if directory == build {
            input.write(store, &build)?;
        }
    }
    for output in &action.outputs {
        let directory = build.join(output).parent().map(Path::to_owned).unwrap_or_default();
        fs::create_dir_all(&directory).at("make the directory", &directory)?;
    }
    Ok(build)
}

/// Ends a step with its line.
fn done(step: Step, result: &ActionResult, outcome: Outcome) {
    let size = result.outputs.values().map(|output| output.digest.size()).sum();
    let product = match result.outputs.keys().next() {
        Some(only) if result.outputs.len() == 1 => only.rsplit('/').next().unwrap_or(only).to_owned(),
        _ => format!("{} files", result.outputs.len()),
    };
    step.done(&product, Some(size), outcome);
}
