//! Runs a program with all processes that it starts, collects their output, and measures their CPU
//! time.

use super::log::Log;
use crate::engine::fs_error::IoContext;
use crate::engine::rules::UMASK;
use crate::engine::stop::Stop;
use crate::error::{Context, Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::thread::CpuSet;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The interval at which a request to stop is checked.
const STOP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The exit status; `None` when a signal ended it.
    pub(super) status: Option<i32>,
    /// The CPU time of all its processes.
    pub(super) cpu: Duration,
}

/// Runs a program until it ends or `stop` is requested, with its output in the log. It sees only
/// these processors. Afterwards none of its processes runs.
///
/// # Errors
/// The program cannot be started, or the log cannot be written.
pub(super) fn run(
    command: Command,
    processors: CpuSet,
    stop: &Stop,
    log: &mut Log<'_>,
) -> Result<Ended> {
    let name = command.get_program().display().to_string();
    // Bubblewrap exits before the first process of its sandbox. As a subreaper we become the parent
    // of that process and learn its CPU time.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .or_build(|| "cannot adopt processes".to_owned())?;
    let (printed, pipe) = io::pipe().or_build(|| "cannot make a pipe".to_owned())?;
    let group = Group(spawn(command, &name, pipe, processors)?);
    follow(&group, printed, stop, log)?;
    group.reap().or_build(|| format!("cannot wait for `{name}`"))
}

fn spawn(
    mut command: Command,
    name: &str,
    pipe: io::PipeWriter,
    processors: CpuSet,
) -> Result<Pid> {
    let both = pipe.try_clone().or_build(|| "cannot make a pipe".to_owned())?;
    command.stdin(Stdio::null()).stdout(both).stderr(pipe);
    let prepare = move || {
        // A new session has no terminal to type into (TIOCSTI), and its process group can be killed
        // as a whole.
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(UMASK));
        rustix::thread::sched_setaffinity(None, &processors)?;
        Ok(())
    };
    // SAFETY: between fork and exec `prepare` makes four system calls and nothing else: it takes no
    // lock and no memory.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::build(format!("the program `{name}` is missing"))
            .hint("cargo osbuild doctor --fix"),
        _ => Error::build(format!("cannot start `{name}`")).cause(error),
    })?;
    Ok(Pid::from_child(&child))
}

/// Copies the program's output to the log until it ends or a stop is requested.
fn follow(group: &Group, mut output: PipeReader, stop: &Stop, log: &mut Log<'_>) -> Result<()> {
    let process = pidfd_open(group.0, PidfdFlags::empty())
        .or_build(|| "cannot watch a process".to_owned())?;
    let mut chunk = vec![0; 64 * 1024];
    let mut open = true;
    while !stop.is_set() {
        let mut events = vec![PollFd::new(&process, PollFlags::IN)];
        if open {
            events.push(PollFd::new(&output, PollFlags::IN));
        }
        match poll(&mut events, Some(&STOP_INTERVAL)) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.or_build(|| "cannot watch a process".to_owned())?,
        };
        let has_news =
            |event: Option<&PollFd<'_>>| event.is_some_and(|event| !event.revents().is_empty());
        let (ended, printed) = (has_news(events.first()), has_news(events.get(1)));
        if ended {
            group.kill();
            return drain(output, log, &mut chunk);
        }
        if printed {
            let read = output.read(&mut chunk).at("read what a step prints to", log.path())?;
            log.take(&chunk[..read])?;
            open = read > 0;
        }
    }
    Ok(())
}

/// Copies the rest of the pipe to the log. All processes that could write to it are being killed.
fn drain(mut output: PipeReader, log: &mut Log<'_>, chunk: &mut [u8]) -> Result<()> {
    loop {
        match output.read(chunk).at("read what a step prints to", log.path())? {
            0 => {
                log.end_line();
                return Ok(());
            }
            read => log.take(&chunk[..read])?,
        }
    }
}

/// The processes of one program. Dropping it kills and reaps them all.
struct Group(Pid);

impl Group {
    fn kill(&self) {
        // The group may be gone already. It contains the first process of the sandbox, and the
        // kernel kills all others there when that one ends (pid_namespaces(7)).
        let _ = kill_process_group(self.0, Signal::KILL);
    }

    /// Kills the processes that still run, and returns how the program ended and the CPU time of
    /// all.
    fn reap(self) -> io::Result<Ended> {
        self.kill();
        let mut ended = Ended { status: None, cpu: Duration::ZERO };
        while let Some((pid, status, cpu)) = wait(self.0)? {
            ended.cpu += cpu;
            if pid == self.0 {
                ended.status = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            }
        }
        std::mem::forget(self);
        Ok(ended)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        while let Ok(Some(_)) = wait(self.0) {}
    }
}

/// Waits for one child of a group: its process, its status as in wait(2), and its CPU time; `None`
/// when there is no child left.
fn wait(group: Pid) -> io::Result<Option<(Pid, i32, Duration)>> {
    loop {
        let mut status = 0;
        // SAFETY: `rusage` is plain numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live variables of the types that wait4(2) writes.
        let pid = unsafe { libc::wait4(-group.as_raw_nonzero().get(), &mut status, 0, &mut usage) };
        match Pid::from_raw(pid.max(0)) {
            Some(pid) => {
                return Ok(Some((pid, status, time(usage.ru_utime) + time(usage.ru_stime))));
            }
            None => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

fn time(value: libc::timeval) -> Duration {
    Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000)
}
