//! One process: how it is started, stopped, restarted and read.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use osbuild_abi::paths::{BIN, INIT};
use osbuild_failure::{Explain, Failure, Outcome};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitStatus, kill_process};

use super::backoff::Backoff;
use super::program::{Life, Program};
use super::rate_limit::{Admission, RateLimit};
use crate::daemon_line;
use crate::data::writer::LogLines;
use crate::lines::Lines;
use crate::sys;

/// Where a process finds programs that it starts by name, unless its [`Launch`] says otherwise.
const SEARCH_PATH: &str = BIN;

/// The home folder of every process. Its environment is this, its search path and what its
/// [`Launch`] has: nothing is inherited.
const HOME: &str = "/tmp";

/// The longest line of output that stays whole, in bytes.
const MAX_LINE: usize = 16 << 10;

/// How often a process is read in one turn: more than a pipe holds, so this bounds only a process
/// that never pauses.
const MAX_READS: usize = 16;

/// Bytes that a task may report; later lines are dropped.
const MAX_REPORT: usize = 256 << 10;

/// How long a process that was asked to restart may take until it is killed.
pub const KILL_AFTER: Duration = Duration::from_secs(20);

/// How a process is started.
pub struct Launch {
    /// The program's path and its arguments.
    pub words: Vec<String>,
    /// Its `PATH`: folders with a colon between them.
    pub search_path: &'static str,
    /// Variables of its environment beside that.
    pub variables: Vec<(&'static str, String)>,
    /// Its standard input; `None` is an empty one.
    pub input: Option<OwnedFd>,
    /// The folder of its control group; `None` is that of `init`.
    pub cgroup: Option<&'static str>,
}

impl Launch {
    /// Starts these words with the usual search path and no input.
    pub fn new(words: Vec<String>) -> Launch {
        let (variables, input, cgroup) = (Vec::new(), None, None);
        Launch { words, search_path: SEARCH_PATH, variables, input, cgroup }
    }

    /// Starts the child of `init` that is `program`, with these arguments.
    pub fn child(program: Program, arguments: &[&str]) -> Launch {
        let words = [INIT, program.name()].into_iter().chain(arguments.iter().copied());
        Launch::new(words.map(str::to_owned).collect())
    }
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running {
        /// Its process id. Only `init` reaps it, so a signal to the id never hits another process.
        pid: Pid,
        /// When it was started, since boot.
        since: Duration,
    },
    /// It exited and is started again at this time since boot.
    Waiting {
        /// That time.
        until: Duration,
    },
    /// It has succeeded, or it was stopped.
    Ended,
}

/// The result of a process that has exited.
#[derive(Debug, PartialEq, Eq)]
pub enum Exit {
    /// A job has succeeded.
    Done,
    /// It was asked to exit or to restart.
    AsAsked,
    /// It failed, or is a daemon, and is started again: a sentence says why and when.
    Restarts(String),
    /// A task has ended.
    Report {
        /// Whether it ended with exit code 0.
        succeeded: bool,
        /// The text that it wrote.
        text: String,
    },
}

/// A program that was started at least once.
pub struct Process {
    /// Which one it is.
    pub program: Program,
    /// Its state.
    pub state: State,
    /// Its failures in a row.
    pub backoff: Backoff,
    limit: RateLimit,
    /// Where a daemon's lines go.
    log: Option<LogLines>,
    /// The last error that it wrote, which often says why it exited.
    last_error: Option<String>,
    /// The text that a task has written.
    report: String,
    output: OwnedFd,
    input: OwnedFd,
    lines: Lines,
    stop_reason: Option<StopReason>,
    /// When it is killed, since boot, unless it exits before.
    kill_at: Option<Duration>,
}

/// Why the process was asked to exit, which makes its exit no failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopReason {
    Stop,
    Restart,
}

impl Process {
    /// A process that is not started yet.
    pub fn new(program: Program, log: Option<LogLines>) -> Outcome<Process> {
        // `init` keeps both ends: a shim that outlives its daemon can go on writing, and so can
        // the daemon's successor.
        let (output, input) = pipe_with(PipeFlags::CLOEXEC).explain("make a pipe")?;
        fcntl_setfl(&output, OFlags::NONBLOCK).explain("make a pipe that does not block")?;
        Ok(Process {
            program,
            state: State::Ended,
            backoff: Backoff::default(),
            limit: RateLimit::default(),
            log,
            last_error: None,
            report: String::new(),
            output,
            input,
            lines: Lines::default(),
            stop_reason: None,
            kill_at: None,
        })
    }

    /// Starts it. A daemon or job that cannot be started is tried again later.
    ///
    /// # Errors
    /// It runs already, and goes on; or it cannot be started.
    pub fn start(&mut self, launch: Launch, now: Duration) -> Outcome {
        // Nothing would reap or end the one that runs.
        if self.pid().is_some() {
            return Err(Failure::new("it runs already"));
        }
        (self.stop_reason, self.last_error) = (None, None);
        self.kill_at = match self.program.life() {
            Life::Task { timeout } => Some(now + timeout),
            Life::Daemon | Life::Job => None,
        };
        if let Life::Task { .. } = self.program.life() {
            (self.report, self.lines) = (String::new(), Lines::default());
        }
        match self.spawn(launch) {
            Ok(pid) => {
                self.state = State::Running { pid, since: now };
                Ok(())
            }
            Err(failure) => {
                match self.program.life() {
                    Life::Task { .. } => self.state = State::Ended,
                    Life::Daemon | Life::Job => self.back_off(now),
                }
                Err(failure)
            }
        }
    }

    /// It could not be started, so it waits before it is tried again.
    pub fn back_off(&mut self, now: Duration) {
        self.state = State::Waiting { until: now + self.backoff.after(Duration::ZERO) };
    }

    fn spawn(&self, launch: Launch) -> Outcome<Pid> {
        let (program, arguments) =
            launch.words.split_first().ok_or("no program").explain("start")?;
        let output = self.input.try_clone().explain("share the pipe")?;
        let errors = self.input.try_clone().explain("share the pipe")?;
        let mut command = Command::new(program);
        if let Some(folder) = launch.cgroup {
            let procs = format!("{folder}/cgroup.procs");
            let file = File::options().write(true).open(&procs);
            sys::enter_cgroup(&mut command, file.explain(format_args!("open {procs}"))?);
        }
        let child = sys::unblock_signals(&mut command)
            .args(arguments)
            .env_clear()
            .envs([("PATH", launch.search_path), ("HOME", HOME)])
            .envs(launch.variables)
            .current_dir("/")
            .process_group(0)
            .stdin(launch.input.map_or_else(Stdio::null, Stdio::from))
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

    /// The descriptor from which its output is read.
    pub fn output(&self) -> &OwnedFd {
        &self.output
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may have exited already, which is what most signals ask for.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to exit and does not start it again. It is killed after `grace`.
    pub fn stop(&mut self, now: Duration, grace: Duration) {
        self.stop_reason = Some(StopReason::Stop);
        match self.state {
            State::Running { .. } => self.end_with(Signal::TERM, now, grace),
            State::Waiting { .. } | State::Ended => self.state = State::Ended,
        }
    }

    /// Asks it to exit, if it runs, and starts it again then. It is killed after [`KILL_AFTER`].
    pub fn restart(&mut self, now: Duration) {
        // A program that ends with the node stays away.
        if self.stop_reason != Some(StopReason::Stop) {
            self.stop_reason = Some(StopReason::Restart);
        }
        self.end_with(Signal::TERM, now, KILL_AFTER);
    }

    /// Ends it because it hangs. On this signal a Go program writes the stack of each goroutine;
    /// one that cannot is killed after [`KILL_AFTER`].
    pub fn end_hung(&mut self, now: Duration) {
        self.end_with(Signal::QUIT, now, KILL_AFTER);
    }

    fn end_with(&mut self, signal: Signal, now: Duration, grace: Duration) {
        self.signal(signal);
        if self.pid().is_some() {
            let at = now + grace;
            // Another request does not give it more time.
            self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
        }
    }

    /// When it has to be started or killed, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Running { .. } => self.kill_at,
            State::Ended => None,
        }
    }

    /// Kills it if its time is over. Returns whether it did.
    pub fn kill_if_late(&mut self, now: Duration) -> bool {
        let late = self.pid().is_some() && self.kill_at.is_some_and(|at| at <= now);
        if late {
            self.kill_at = None;
            self.signal(Signal::KILL);
        }
        late
    }

    /// Whether it is to be started now.
    pub fn is_due(&self, now: Duration) -> bool {
        matches!(self.state, State::Waiting { until } if until <= now)
    }

    /// Runs it once more: restarts it if it runs, starts it now if it has exited.
    pub fn run_again(&mut self, now: Duration) {
        match self.state {
            State::Running { .. } => self.restart(now),
            State::Waiting { .. } | State::Ended => self.state = State::Waiting { until: now },
        }
    }

    /// Lets it wait, if it does, until it is started or [run again](Process::run_again): its start
    /// is being prepared.
    pub fn hold(&mut self) {
        if let State::Waiting { until } = &mut self.state {
            *until = Duration::MAX;
        }
    }

    /// Takes note of its exit status.
    pub fn on_exit(&mut self, status: WaitStatus, now: Duration) -> Exit {
        let State::Running { since, .. } = self.state else { return Exit::AsAsked };
        self.kill_at = None;
        self.state = State::Ended;
        let succeeded = status.exit_status() == Some(0);
        match self.program.life() {
            Life::Task { .. } => {
                return Exit::Report { succeeded, text: std::mem::take(&mut self.report) };
            }
            // It may have ended by itself before it was asked to.
            Life::Job if succeeded && self.stop_reason != Some(StopReason::Restart) => {
                return Exit::Done;
            }
            Life::Job | Life::Daemon => {}
        }
        match self.stop_reason {
            Some(StopReason::Stop) => Exit::AsAsked,
            Some(StopReason::Restart) => {
                self.backoff.on_restart(now.saturating_sub(since));
                self.state = State::Waiting { until: now };
                Exit::AsAsked
            }
            None => {
                let wait = self.backoff.after(now.saturating_sub(since));
                self.state = State::Waiting { until: now + wait };
                let how = describe(status);
                let failures = self.backoff.failures();
                Exit::Restarts(exit_message(&how, failures, wait, self.last_error.take()))
            }
        }
    }

    /// Reads what it has written. A daemon's lines go to its log and a task's into its report.
    /// Returns the lines for the console.
    pub fn read(&mut self, now: Duration) -> Vec<String> {
        let mut buffer = [0u8; 16 << 10];
        let mut for_console = Vec::new();
        for _ in 0..MAX_READS {
            let Ok(read @ 1..) = rustix::io::read(&self.output, &mut buffer) else { break };
            self.lines.push(&buffer[..read]);
            while let Some(line) = self.lines.take(MAX_LINE) {
                for_console.extend(self.take_line(line, now));
            }
        }
        for_console
    }

    fn take_line(&mut self, line: String, now: Duration) -> Option<String> {
        match self.program.life() {
            Life::Job => Some(line),
            Life::Task { .. } => {
                if self.report.len() + line.len() < MAX_REPORT {
                    self.report.push_str(&line);
                    self.report.push('\n');
                }
                None
            }
            Life::Daemon => {
                if let Some(log) = &mut self.log {
                    log.line(&line);
                }
                if !daemon_line::is_error(&line) {
                    return None;
                }
                self.last_error = Some(line.clone());
                match self.limit.admit_of(&daemon_line::source(&line), now) {
                    Admission::Show { held_back: 0 } => Some(line),
                    Admission::Show { held_back } => {
                        let (logs, name) = (osbuild_abi::paths::LOGS, self.program.name());
                        Some(format!("{line} ({held_back} more in {logs}/{name}.log)"))
                    }
                    Admission::Hold => None,
                }
            }
        }
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn exit_message(how: &str, failures: u32, wait: Duration, last_error: Option<String>) -> String {
    let often = if failures > 1 { format!(", {failures} times in a row") } else { String::new() };
    let why = last_error.map(|error| format!("; its last error: {error}")).unwrap_or_default();
    format!("{how}{often}; starts again in {:.1} s{why}", wait.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::WaitOptions;

    /// Starts a shell with this script as `program`.
    fn start(program: Program, script: &str) -> Process {
        let mut process = Process::new(program, None).unwrap();
        process.start(shell(script), Duration::ZERO).unwrap();
        process
    }

    fn shell(script: &str) -> Launch {
        Launch::new(["/bin/sh", "-c", script].map(str::to_owned).to_vec())
    }

    fn wait(process: &Process) -> WaitStatus {
        rustix::process::waitpid(process.pid(), WaitOptions::empty()).unwrap().unwrap().1
    }

    /// Runs a script to its end, a second after its start.
    fn run(program: Program, script: &str) -> (Process, Exit) {
        let mut process = start(program, script);
        let status = wait(&process);
        process.read(Duration::ZERO);
        let exit = process.on_exit(status, Duration::from_secs(1));
        (process, exit)
    }

    #[test]
    fn a_job_that_succeeds_is_not_started_again() {
        let (process, exit) = run(Program::Gate, "exit 0");
        assert_eq!((process.state, exit), (State::Ended, Exit::Done));
    }

    #[test]
    fn a_job_that_succeeds_before_it_is_restarted_is_started_again() {
        let mut process = start(Program::Gate, "exit 0");
        let status = wait(&process);
        process.restart(Duration::ZERO);
        assert_eq!(process.on_exit(status, Duration::from_secs(1)), Exit::AsAsked);
        assert_eq!(process.state, State::Waiting { until: Duration::from_secs(1) });
    }

    #[test]
    fn a_job_that_fails_is_started_again() {
        let (process, exit) = run(Program::Gate, "exit 3");
        assert_eq!(process.state, State::Waiting { until: Duration::from_millis(1500) });
        let message = "ended with exit code 3; starts again in 0.5 s";
        assert_eq!(exit, Exit::Restarts(message.to_owned()));
    }

    #[test]
    fn a_held_process_waits_until_it_is_run_again() {
        let (mut process, _) = run(Program::Kubelet, "exit 0");
        process.hold();
        assert_eq!(process.state, State::Waiting { until: Duration::MAX });
        process.run_again(Duration::from_secs(2));
        assert_eq!(process.deadline(), Some(Duration::from_secs(2)));
        process.stop(Duration::from_secs(2), Duration::ZERO);
        process.hold();
        assert_eq!(process.state, State::Ended, "a stopped one does not start");
    }

    #[test]
    fn a_daemon_that_ends_well_is_started_again_too() {
        let (process, exit) = run(Program::Kubelet, "exit 0");
        assert!(matches!(process.state, State::Waiting { .. }));
        assert!(
            matches!(exit, Exit::Restarts(message) if message.starts_with("ended with exit code 0"))
        );
    }

    #[test]
    fn a_task_reports_what_it_wrote_and_is_not_started_again() {
        let (process, exit) = run(Program::Health, "echo kubelet: late; echo containerd: late");
        let text = "kubelet: late\ncontainerd: late\n".to_owned();
        assert_eq!((process.state, exit), (State::Ended, Exit::Report { succeeded: true, text }));
        let failed = run(Program::TrySlot, "echo wrong digest; exit 1").1;
        assert_eq!(failed, Exit::Report { succeeded: false, text: "wrong digest\n".to_owned() });
    }

    #[test]
    fn a_task_is_killed_after_its_timeout_and_its_report_is_bounded() {
        let Life::Task { timeout } = Program::TrySlot.life() else { panic!("it is a task") };
        let mut process = start(Program::TrySlot, "yes | head -c 600000; sleep 60");
        assert_eq!(process.deadline(), Some(timeout));
        assert!(!process.kill_if_late(timeout - Duration::from_secs(1)));
        // It writes more than a pipe holds.
        let since = std::time::Instant::now();
        while process.report.len() < MAX_REPORT && since.elapsed() < Duration::from_secs(60) {
            process.read(Duration::ZERO);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(process.kill_if_late(timeout));
        let status = wait(&process);
        process.read(timeout);
        assert_eq!(process.report.len(), MAX_REPORT);
        assert!(matches!(process.on_exit(status, timeout), Exit::Report { succeeded: false, .. }));
    }

    #[test]
    fn a_task_reads_the_input_that_it_is_given() {
        let mut process = Process::new(Program::ReplaceSlotboot, None).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"slotboot\n").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let launch = Launch { input: Some(file.into()), ..shell("cat") };
        process.start(launch, Duration::ZERO).unwrap();
        let status = wait(&process);
        process.read(Duration::ZERO);
        let exit = process.on_exit(status, Duration::ZERO);
        assert_eq!(exit, Exit::Report { succeeded: true, text: "slotboot\n".to_owned() });
    }

    #[test]
    fn both_outputs_are_read_and_nothing_is_inherited() {
        let mut process = start(Program::Gate, "echo out; echo $PATH $HOME >&2");
        wait(&process);
        assert_eq!(process.read(Duration::ZERO), ["out", "/bin /tmp"]);
    }

    #[test]
    fn a_launch_can_have_a_search_path_of_its_own() {
        let mut process = Process::new(Program::Gate, None).unwrap();
        let launch = Launch { search_path: "/bin:/opt/cni/bin", ..shell("echo $PATH") };
        process.start(launch, Duration::ZERO).unwrap();
        wait(&process);
        assert_eq!(process.read(Duration::ZERO), ["/bin:/opt/cni/bin"]);
    }

    #[test]
    fn a_child_gets_the_signals_that_init_has_blocked() {
        let _descriptor = sys::signal_descriptor().unwrap();
        let mut process = start(Program::Gate, "grep SigBlk /proc/self/status");
        wait(&process);
        assert_eq!(process.read(Duration::ZERO), ["SigBlk:\t0000000000000000"]);
    }

    #[test]
    fn a_daemon_that_cannot_be_started_is_tried_again_and_a_task_is_not() {
        for (program, ends) in [(Program::Kubelet, false), (Program::TrySlot, true)] {
            let mut process = Process::new(program, None).unwrap();
            let launch = Launch::new(vec!["/no/such/program".to_owned()]);
            assert!(process.start(launch, Duration::ZERO).is_err());
            assert_eq!(process.state == State::Ended, ends, "{program:?}");
        }
    }

    /// Waits until a process has stopped itself by SIGSTOP.
    fn wait_until_stopped(process: &Process) {
        let status = rustix::process::waitpid(process.pid(), WaitOptions::UNTRACED);
        assert!(status.unwrap().unwrap().1.stopped());
    }

    /// Waits until a process has printed a line.
    fn wait_for_line(process: &mut Process) {
        while process.read(Duration::ZERO).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_process_that_ignores_the_request_to_restart_is_killed() {
        let deaf = "trap '' TERM; echo up; while :; do sleep 0.01; done";
        let stopped = "kill -STOP $$";
        for script in [deaf, stopped] {
            let mut process = start(Program::Gate, script);
            match script == stopped {
                true => wait_until_stopped(&process),
                false => wait_for_line(&mut process),
            }
            let now = Duration::from_secs(5);
            process.restart(now);
            assert!(!process.kill_if_late(now + KILL_AFTER - Duration::from_secs(1)), "{script}");
            assert!(process.kill_if_late(now + KILL_AFTER), "{script}");
            assert!(!process.kill_if_late(now + KILL_AFTER), "{script}");
            let status = wait(&process);
            assert_eq!(status.terminating_signal(), Some(Signal::KILL.as_raw()));
            assert_eq!(process.on_exit(status, now), Exit::AsAsked);
            assert_eq!(process.state, State::Waiting { until: now }, "{script}");
        }
    }

    #[test]
    fn further_requests_do_not_postpone_the_end_of_a_process_that_hangs() {
        let mut process = start(Program::Kubelet, "kill -STOP $$");
        wait_until_stopped(&process);
        let now = Duration::from_secs(5);
        process.restart(now);
        process.restart(now + KILL_AFTER / 2);
        process.end_hung(now + KILL_AFTER / 2);
        assert_eq!(process.deadline(), Some(now + KILL_AFTER));
        process.stop(now, Duration::from_secs(1));
        assert_eq!(process.deadline(), Some(now + Duration::from_secs(1)), "less time counts");
        assert!(process.kill_if_late(now + KILL_AFTER));
        wait(&process);
    }

    #[test]
    fn a_process_that_runs_is_not_started_again() {
        for program in [Program::PodStates, Program::Kubelet] {
            let mut process = start(program, "exec sleep 60");
            let pid = process.pid();
            let failure = process.start(shell("exit 0"), Duration::ZERO).unwrap_err();
            assert_eq!((process.pid(), failure.to_string().as_str()), (pid, "it runs already"));
            process.signal(Signal::KILL);
            wait(&process);
        }
    }

    #[test]
    fn a_process_that_was_stopped_is_killed_after_its_grace_and_stays_stopped() {
        let mut process = start(Program::Kubelet, "kill -STOP $$");
        wait_until_stopped(&process);
        let (now, grace) = (Duration::from_secs(5), Duration::from_secs(10));
        process.stop(now, grace);
        assert_eq!(process.deadline(), Some(now + grace));
        assert!(process.kill_if_late(now + grace));
        let status = wait(&process);
        assert_eq!(process.on_exit(status, now), Exit::AsAsked);
        assert_eq!(process.state, State::Ended);
    }

    #[test]
    fn the_message_about_a_crash_loop_has_the_count_and_the_last_error() {
        let message = exit_message(
            "was ended by signal 9",
            4,
            Duration::from_secs(4),
            Some("no space left".to_owned()),
        );
        assert_eq!(
            message,
            "was ended by signal 9, 4 times in a row; starts again in 4.0 s; \
             its last error: no space left"
        );
    }
}
