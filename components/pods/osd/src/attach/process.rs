//! The command: how it is started, and how it ends.

use super::descriptor::Descriptor;
use super::terminal::{self, ON_TERMINAL};
use osbuild_abi::osd::DEBUG_VARIABLE;
use osbuild_cosi::v1::{DebugSize, DebugStart, DebugTerminal};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};
use std::fmt::{self, Display};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tokio::sync::watch;

/// The byte that ends the input of a terminal (termios(3), `VEOF`).
const END_OF_INPUT: &[u8] = &[4];
/// The exit code of a command that a signal has ended is the signal and this.
const SIGNALLED: u32 = 128;
/// The exit code of a command of which nobody knows how it has ended.
const UNKNOWN: u32 = 255;

/// A command that runs.
pub struct Process {
    pub input: Input,
    pub output: Option<Descriptor>,
    /// None with a terminal.
    pub error_output: Option<Descriptor>,
    pub ending: Ending,
}

/// The input of a command. Bytes that come after it has closed its stdin are lost.
pub struct Input {
    /// None once it has ended.
    to: Option<Descriptor>,
    is_terminal: bool,
}

/// The end of a command, and of the processes that it has started.
#[derive(Clone, Debug)]
pub struct Ending {
    pid: Pid,
    code: watch::Receiver<Option<u32>>,
}

/// Why a command has not started.
#[derive(Debug)]
pub struct NotStarted {
    name: String,
    error: io::Error,
}

impl NotStarted {
    /// The exit code of a shell for it.
    pub fn code(&self) -> u32 {
        terminal::code(&self.error).into()
    }
}

impl Display for NotStarted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot start `{}`: {}", self.name, self.error)
    }
}

impl Process {
    /// Starts it. There has to be a runtime.
    ///
    /// # Errors
    /// There is no such program, or it cannot be executed. On a terminal, the command says so
    /// itself.
    pub fn start(start: &DebugStart) -> Result<Process, NotStarted> {
        let started = match &start.terminal {
            Some(terminal) => on_terminal(&start.command, terminal),
            None => on_pipes(&start.command),
        };
        let name = || start.command.first().cloned().unwrap_or_default();
        started.map_err(|error| NotStarted { name: name(), error })
    }
}

fn on_terminal(command: &[String], kind: &DebugTerminal) -> io::Result<Process> {
    let (control, own) = terminal::open(kind.size)?;
    let mut step = Command::new(std::env::current_exe()?);
    step.arg(ON_TERMINAL).args(command).env_remove(DEBUG_VARIABLE).env("TERM", &kind.kind);
    step.stdin(own.try_clone()?).stdout(own.try_clone()?).stderr(own);
    let ending = spawn(step)?;
    let control = Descriptor::new(control)?;
    let input = Input { to: Some(control.clone()), is_terminal: true };
    Ok(Process { input, output: Some(control), error_output: None, ending })
}

fn on_pipes(words: &[String]) -> io::Result<Process> {
    let (name, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(name);
    command.args(arguments).env_remove(DEBUG_VARIABLE);
    let (stdin, input) = io::pipe()?;
    let (output, stdout) = io::pipe()?;
    let (error_output, stderr) = io::pipe()?;
    // A process group of its own ends as a whole.
    command.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
    let ending = spawn(command)?;
    let input = Input { to: Some(Descriptor::new(OwnedFd::from(input))?), is_terminal: false };
    let [output, error_output] = [OwnedFd::from(output), OwnedFd::from(error_output)];
    Ok(Process {
        input,
        output: Some(Descriptor::new(output)?),
        error_output: Some(Descriptor::new(error_output)?),
        ending,
    })
}

/// Starts it. `command` has this side's copies of its descriptors, which end here.
fn spawn(mut command: Command) -> io::Result<Ending> {
    let child = command.spawn()?;
    drop(command);
    let pid = Pid::from_child(&child);
    let (to, code) = watch::channel(None);
    // This is the first process of its container, so it reaps those of others, too.
    std::thread::Builder::new().name("reaper".to_owned()).spawn(move || {
        let code = reap_until(pid);
        to.send_replace(Some(code));
    })?;
    Ok(Ending { pid, code })
}

/// Reaps processes until this one has ended, whose exit code is returned.
fn reap_until(pid: Pid) -> u32 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => return code(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return UNKNOWN,
        }
    }
}

fn code(status: WaitStatus) -> u32 {
    let signalled = || status.terminating_signal().map(|signal| SIGNALLED + signal.cast_unsigned());
    let code = status.exit_status().map(i32::cast_unsigned).or_else(signalled);
    code.unwrap_or(UNKNOWN)
}

impl Ending {
    /// Whether the command has ended.
    pub fn has_ended(&self) -> bool {
        self.code.borrow().is_some()
    }

    /// The exit code of the command, once it has ended.
    pub async fn code(&mut self) -> u32 {
        let ended = self.code.wait_for(Option::is_some).await;
        ended.ok().and_then(|code| *code).unwrap_or(UNKNOWN)
    }

    /// Hangs up on the command and its process group.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Kills the rest of the group.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // They may have ended.
        let _ = kill_process_group(self.pid, signal);
    }
}

impl Input {
    /// Writes bytes, and waits while the command does not take them.
    pub async fn write(&mut self, bytes: &[u8]) {
        if let Some(to) = &self.to
            && to.write_all(bytes).await.is_err()
        {
            self.to = None;
        }
    }

    /// Gives the terminal another size.
    pub fn resize(&self, size: DebugSize) {
        if let Some(terminal) = self.to.as_ref().filter(|_| self.is_terminal) {
            // Without it, a screen is drawn in the former size.
            let _ = terminal::resize(terminal.get(), size);
        }
    }

    /// Ends the input. A terminal goes on, as its command may write to it.
    pub async fn end(&mut self) {
        match self.is_terminal {
            true => self.write(END_OF_INPUT).await,
            false => self.to = None,
        }
    }
}
