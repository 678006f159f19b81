//! A program that runs, all processes that it starts, what they print and what they cost.

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

/// How soon a wish to stop is seen.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The exit status; `None` when a signal ended it.
    pub(super) status: Option<i32>,
    /// The CPU time of all its processes.
    pub(super) cpu: Duration,
}

/// Runs a program until it ends or `stop` is wished. What it prints goes to the log.
/// It sees these processors. Nothing of it runs afterwards.
pub(super) fn run(
    command: Command,
    processors: CpuSet,
    stop: &Stop,
    log: &mut Log<'_>,
) -> Result<Ended> {
    let name = command.get_program().display().to_string();
    // Bubblewrap leaves without waiting for the first process of its sandbox: that becomes our
    // child, and its CPU time is known.
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
        // A session of its own has no terminal that something in it could type into, and is a group
        // to be killed.
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

/// Hands on what the program prints until it ends, or until a stop is wished.
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
        match poll(&mut events, Some(&LOOK)) {
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

/// Takes what is left in the pipe. All that could write to it is being killed.
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
        // The group may be gone already. The first process of a sandbox is in it, and all others
        // there die with that one.
        let _ = kill_process_group(self.0, Signal::KILL);
    }

    /// Kills what still runs, and gives how the program ended and what all of it cost.
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

/// Waits for one child of a group: its process, its status as wait(2) gives it, and its CPU time;
/// `None` when there is no child left.
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
