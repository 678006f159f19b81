//! A process that `init` starts, listens to, and starts anew when it ends.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use osbuild_abi::paths::BIN;
use osbuild_failure::{Explain, Outcome};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitStatus, kill_process};

use crate::backoff::Backoff;
use crate::lines::Lines;
use crate::severity::Limit;
use crate::sys;
use crate::writer::LogLines;

/// Where a process finds programs that it starts by name, unless it was given another path.
const SEARCH_PATH: &str = BIN;

/// The home folder of every process. Its environment is this and its search path: nothing is
/// inherited.
const HOME: &str = "/tmp";

/// The longest line of a daemon that stays whole, in bytes.
const LONGEST_LINE: usize = 16 << 10;

/// How often a process is read before others have their turn: more than a pipe holds, so it is only
/// a bound on one that never pauses.
const READS_A_TURN: usize = 16;

/// How long a process that was asked to end may take until it is killed.
pub const KILL_AFTER: Duration = Duration::from_secs(20);

/// How long a process is meant to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As long as the node: it is started anew whenever it ends. What it writes goes to its log,
    /// errors to the console too.
    Daemon,
    /// Until it has done its work: it is started anew only when it failed. What it writes goes to
    /// the console.
    Job,
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running {
        /// Its process id, which nobody but `init` frees by reaping: so a signal to it never hits
        /// another process.
        pid: Pid,
        /// When it was started, since boot.
        since: Duration,
    },
    /// It ended and is started anew at this time since boot.
    Waiting {
        /// That time.
        until: Duration,
    },
    /// It has done its work, or it was told to stop.
    Ended,
}

/// One of the processes of the node.
pub struct Process {
    /// Its name on the console and of its log.
    pub name: &'static str,
    /// How long it is meant to live.
    pub life: Life,
    /// What it is doing.
    pub state: State,
    /// Its failures in a row.
    pub backoff: Backoff,
    /// Bounds how often it is heard on the console.
    pub limit: Limit,
    /// Where a daemon's lines go.
    pub log: Option<LogLines>,
    /// The last error that it wrote, which often says why it ended.
    pub last_error: Option<String>,
    /// Its program and arguments, for this node name. A function, because the kubelet's depend on
    /// what is on DATA when it starts.
    command: fn(node_name: &str) -> Vec<String>,
    search_path: &'static str,
    output: OwnedFd,
    input: OwnedFd,
    lines: Lines,
    told: Told,
    /// When it is killed, since boot, unless it has ended before.
    kill_at: Option<Duration>,
}

/// What the process was told to do, which is why its end then is no failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Nothing,
    ToEnd,
    ToRestart,
}

impl Process {
    /// A process that is not started yet.
    pub fn new(
        name: &'static str,
        life: Life,
        command: fn(&str) -> Vec<String>,
    ) -> Outcome<Process> {
        // `init` keeps both ends: what a daemon left behind (a shim) can go on writing after the
        // daemon ended, and so can its successor.
        let (output, input) = pipe_with(PipeFlags::CLOEXEC).explain("make a pipe")?;
        fcntl_setfl(&output, OFlags::NONBLOCK).explain("make a pipe that does not block")?;
        Ok(Process {
            name,
            life,
            state: State::Ended,
            backoff: Backoff::default(),
            limit: Limit::default(),
            log: None,
            last_error: None,
            command,
            search_path: SEARCH_PATH,
            output,
            input,
            lines: Lines::default(),
            told: Told::Nothing,
            kill_at: None,
        })
    }

    /// The same process with another `PATH`: folders with a colon between them.
    pub fn with_search_path(self, search_path: &'static str) -> Process {
        Process { search_path, ..self }
    }

    /// Starts it. A failure to start is one like any other: it is tried again later.
    pub fn start(&mut self, now: Duration, node_name: &str) -> Outcome {
        self.told = Told::Nothing;
        self.kill_at = None;
        match self.spawn(node_name) {
            Ok(pid) => {
                self.state = State::Running { pid, since: now };
                Ok(())
            }
            Err(failure) => {
                self.state = State::Waiting { until: now + self.backoff.after(Duration::ZERO) };
                Err(failure)
            }
        }
    }

    fn spawn(&self, node_name: &str) -> Outcome<Pid> {
        let words = (self.command)(node_name);
        let (program, arguments) = words.split_first().ok_or("no program").explain("start")?;
        let output = self.input.try_clone().explain("share the pipe")?;
        let errors = self.input.try_clone().explain("share the pipe")?;
        let child = sys::unblock_signals(&mut Command::new(program))
            .args(arguments)
            .env_clear()
            .envs([("PATH", self.search_path), ("HOME", HOME)])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .explain(format_args!("start `{program}`"))?;
        // The handle is dropped: `init` reaps every child in one place, by its id.
        Ok(Pid::from_child(&child))
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<Pid> {
        match self.state {
            State::Running { pid, .. } => Some(pid),
            State::Waiting { .. } | State::Ended => None,
        }
    }

    /// Where its output can be read.
    pub fn output(&self) -> &OwnedFd {
        &self.output
    }

    /// Sends it a signal, if it runs.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may have ended already, which is what most signals ask for.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to end, and does not start it anew.
    pub fn stop(&mut self) {
        self.told = Told::ToEnd;
        match self.state {
            State::Running { .. } => self.signal(Signal::TERM),
            State::Waiting { .. } | State::Ended => self.state = State::Ended,
        }
    }

    /// Asks it to end, if it runs, and starts it anew then. One that does not end is killed after
    /// [`KILL_AFTER`].
    pub fn restart(&mut self, now: Duration) {
        self.told = Told::ToRestart;
        self.end_with(Signal::TERM, now);
    }

    /// Ends it because it hangs. A Go program writes down what each of its threads does when it
    /// gets this signal; one that cannot is killed after [`KILL_AFTER`].
    pub fn end_hung(&mut self, now: Duration) {
        self.end_with(Signal::QUIT, now);
    }

    fn end_with(&mut self, signal: Signal, now: Duration) {
        self.signal(signal);
        if self.pid().is_some() {
            self.kill_at = Some(now + KILL_AFTER);
        }
    }

    /// When it is killed, since boot, unless it ends before.
    pub fn kill_at(&self) -> Option<Duration> {
        self.kill_at
    }

    /// Kills it, if it should have ended long ago. Gives whether it was.
    pub fn kill_if_late(&mut self, now: Duration) -> bool {
        let late = self.pid().is_some() && self.kill_at.is_some_and(|at| at <= now);
        if late {
            self.kill_at = None;
            self.signal(Signal::KILL);
        }
        late
    }

    /// Has it run once more: anew if it runs, at once if it has ended.
    pub fn again(&mut self, now: Duration) {
        match self.state {
            State::Running { .. } => self.restart(now),
            State::Waiting { .. } | State::Ended => self.state = State::Waiting { until: now },
        }
    }

    /// Notes that it ended with this status, and returns what to say about it, if anything.
    pub fn ended(&mut self, status: WaitStatus, now: Duration) -> Option<String> {
        let State::Running { since, .. } = self.state else { return None };
        self.kill_at = None;
        let done = self.life == Life::Job && status.exit_status() == Some(0);
        if done || self.told == Told::ToEnd {
            self.state = State::Ended;
            return None;
        }
        if self.told == Told::ToRestart {
            self.state = State::Waiting { until: now };
            return None;
        }
        let wait = self.backoff.after(now.saturating_sub(since));
        self.state = State::Waiting { until: now + wait };
        Some(obituary(&describe(status), self.backoff.failures(), wait, self.last_error.take()))
    }

    /// Takes the lines that it has written since the last call.
    pub fn written(&mut self) -> Vec<String> {
        let mut buffer = [0u8; 16 << 10];
        let mut lines = Vec::new();
        for _ in 0..READS_A_TURN {
            let Ok(read @ 1..) = rustix::io::read(&self.output, &mut buffer) else { break };
            self.lines.push(&buffer[..read]);
            while let Some(line) = self.lines.take(LONGEST_LINE) {
                lines.push(line);
            }
        }
        lines
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn obituary(how: &str, failures: u32, wait: Duration, last_error: Option<String>) -> String {
    let often = if failures > 1 { format!(", {failures} times in a row") } else { String::new() };
    let why = last_error.map(|error| format!("; its last error: {error}")).unwrap_or_default();
    format!("{how}{often}; starts again in {:.1} s{why}", wait.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::WaitOptions;

    fn run(life: Life, command: fn(&str) -> Vec<String>) -> (Process, Option<String>) {
        let mut process = Process::new("test", life, command).unwrap();
        process.start(Duration::ZERO, "node").unwrap();
        let (_, status) =
            rustix::process::waitpid(process.pid(), WaitOptions::empty()).unwrap().unwrap();
        let said = process.ended(status, Duration::from_secs(1));
        (process, said)
    }

    fn shell(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_job_that_did_its_work_is_not_started_again() {
        let (process, said) = run(Life::Job, |_| shell("exit 0"));
        assert_eq!((process.state, said), (State::Ended, None));
    }

    #[test]
    fn a_job_that_failed_is_started_again() {
        let (process, said) = run(Life::Job, |_| shell("exit 3"));
        assert_eq!(process.state, State::Waiting { until: Duration::from_millis(1500) });
        assert_eq!(said.unwrap(), "ended with exit code 3; starts again in 0.5 s");
    }

    #[test]
    fn a_daemon_that_ended_well_is_started_again_too() {
        let (process, said) = run(Life::Daemon, |_| shell("exit 0"));
        assert!(matches!(process.state, State::Waiting { .. }));
        assert!(said.unwrap().starts_with("ended with exit code 0"));
    }

    #[test]
    fn both_outputs_are_read_and_the_environment_is_ours() {
        let (mut process, _) =
            run(Life::Job, |name| shell(&format!("echo {name}; echo $PATH $HOME >&2")));
        assert_eq!(process.written(), ["node", "/bin /tmp"]);
    }

    #[test]
    fn a_search_path_of_its_own_takes_the_place_of_the_usual_one() {
        let process = Process::new("test", Life::Job, |_| shell("echo $PATH")).unwrap();
        let mut process = process.with_search_path("/bin:/opt/cni/bin");
        process.start(Duration::ZERO, "node").unwrap();
        rustix::process::waitpid(process.pid(), WaitOptions::empty()).unwrap();
        assert_eq!(process.written(), ["/bin:/opt/cni/bin"]);
    }

    #[test]
    fn a_child_gets_the_signals_that_init_has_blocked() {
        let _descriptor = sys::signal_descriptor().unwrap();
        let (mut process, _) = run(Life::Job, |_| shell("grep SigBlk /proc/self/status"));
        assert_eq!(process.written(), ["SigBlk:\t0000000000000000"]);
    }

    #[test]
    fn what_cannot_be_started_is_tried_again() {
        let mut process =
            Process::new("test", Life::Daemon, |_| vec!["/no/such/program".to_owned()]).unwrap();
        assert!(process.start(Duration::ZERO, "node").is_err());
        assert!(matches!(process.state, State::Waiting { .. }));
    }

    #[test]
    fn a_process_that_does_not_end_when_it_is_told_to_is_killed() {
        type Script = fn(&str) -> Vec<String>;
        let deaf: Script = |_| shell("trap '' TERM; echo up; while :; do sleep 0.01; done");
        let stopped: Script = |_| shell("echo up; kill -STOP $$");
        for (hangs, script) in [("deaf", deaf), ("stopped", stopped)] {
            let mut process = Process::new("test", Life::Daemon, script).unwrap();
            process.start(Duration::ZERO, "node").unwrap();
            while process.written().is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let now = Duration::from_secs(5);
            process.restart(now);
            assert!(!process.kill_if_late(now + KILL_AFTER - Duration::from_secs(1)), "{hangs}");
            assert!(
                process.kill_if_late(now + KILL_AFTER) && !process.kill_if_late(now + KILL_AFTER),
                "{hangs}"
            );
            let (_, status) =
                rustix::process::waitpid(process.pid(), WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()));
            assert_eq!(
                (process.ended(status, now), process.state),
                (None, State::Waiting { until: now }),
                "{hangs}"
            );
        }
    }

    #[test]
    fn a_crash_loop_is_told_with_its_reason() {
        let said = obituary(
            "was ended by signal 9",
            4,
            Duration::from_secs(4),
            Some("no space left".to_owned()),
        );
        assert_eq!(
            said,
            "was ended by signal 9, 4 times in a row; starts again in 4.0 s; its last error: no space left"
        );
    }
}
