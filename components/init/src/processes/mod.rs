//! The processes that `init` starts: one mechanism spawns, reads, restarts and reaps them all.

pub mod backoff;
pub mod process;
pub mod program;
pub mod rate_limit;

use std::os::fd::OwnedFd;
use std::time::Duration;

use osbuild_failure::Outcome;
use rustix::process::{Pid, WaitStatus};

use crate::data::writer::LogLines;
use process::{Exit, Launch, Process, State};
use program::Program;

/// Every process that was started in this boot, in the order of the first start.
#[derive(Default)]
pub struct Processes {
    started: Vec<Process>,
}

impl Processes {
    /// The processes.
    pub fn iter(&self) -> impl Iterator<Item = &Process> {
        self.started.iter()
    }

    /// The process of `program`, if it was ever started.
    pub fn get(&self, program: Program) -> Option<&Process> {
        self.started.iter().find(|process| process.program == program)
    }

    /// The process of `program`, if it was ever started.
    pub fn get_mut(&mut self, program: Program) -> Option<&mut Process> {
        self.started.iter_mut().find(|process| process.program == program)
    }

    /// Starts `program`. `log` makes the log of a daemon that is started for the first time.
    pub fn start(
        &mut self,
        program: Program,
        launch: Launch,
        now: Duration,
        log: impl FnOnce() -> Option<LogLines>,
    ) -> Outcome {
        if self.get(program).is_none() {
            self.started.push(Process::new(program, log())?);
        }
        self.get_mut(program).map_or(Ok(()), |process| process.start(launch, now))
    }

    /// Whether the process of `program` runs.
    pub fn is_running(&self, program: Program) -> bool {
        self.get(program).is_some_and(|process| process.pid().is_some())
    }

    /// Whether the job `program` has succeeded, or was stopped: it is not started again.
    pub fn is_done(&self, program: Program) -> bool {
        self.get(program).is_some_and(|process| process.state == State::Ended)
    }

    /// Forgets all processes, and with them closes their logs.
    pub fn clear(&mut self) {
        self.started.clear();
    }

    /// The descriptors from which output is read.
    pub fn outputs(&self) -> impl Iterator<Item = &OwnedFd> {
        self.started.iter().map(Process::output)
    }

    /// The next time at which a process has to be started or killed, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.started.iter().filter_map(Process::deadline).min()
    }

    /// Reads what the processes have written. Returns the lines for the console.
    pub fn read(&mut self, now: Duration) -> Vec<(Program, String)> {
        let lines = |process: &mut Process| {
            let program = process.program;
            process.read(now).into_iter().map(move |line| (program, line))
        };
        self.started.iter_mut().flat_map(lines).collect()
    }

    /// Takes note that the process `pid` has exited. It may be an orphan, which has no program.
    pub fn on_exit(
        &mut self,
        pid: Pid,
        status: WaitStatus,
        now: Duration,
    ) -> Option<(Program, Exit)> {
        let process = self.started.iter_mut().find(|process| process.pid() == Some(pid))?;
        Some((process.program, process.on_exit(status, now)))
    }

    /// Kills the processes whose time to exit is over, and returns which.
    pub fn kill_late(&mut self, now: Duration) -> Vec<Program> {
        let late = self
            .started
            .iter_mut()
            .filter_map(|process| process.kill_if_late(now).then_some(process.program));
        late.collect()
    }

    /// The programs whose time to be started again has come.
    pub fn due(&self, now: Duration) -> Vec<Program> {
        self.started
            .iter()
            .filter(|process| process.is_due(now))
            .map(|process| process.program)
            .collect()
    }
}
