//! One run of bubblewrap: a root of our own, no network, nothing of the host's but its kernel.

use super::log::Log;
use crate::error::{Context, Error, Result};
use crate::produce::action::{Action, BUILD, TOOLCHAIN};
use crate::produce::disk::OnDisk;
use crate::produce::stop::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How soon a wish to stop is seen.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What is run, and where its `build` and `tmp` directories are.
pub(super) struct Sandbox<'a> {
    pub(super) action: &'a Action,
    pub(super) scratch: &'a Path,
    pub(super) jobs: usize,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// The exit status; `None` when a signal ended bubblewrap itself.
    pub(super) status: Option<i32>,
    /// The CPU time of all processes in the sandbox.
    pub(super) cpu: Duration,
}

impl Sandbox<'_> {
    /// Runs the action until it ends or `stop` is wished. Nothing of it runs afterwards.
    pub(super) fn run(&self, stop: &Stop, log: &mut Log<'_>) -> Result<Ended> {
        // Bubblewrap leaves without waiting for the first process of the sandbox: that becomes our child, and its CPU time is known.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).or_build(|| "cannot adopt processes".to_owned())?;
        let (output, input) = io::pipe().or_build(|| "cannot make a pipe".to_owned())?;
        let child = Group(self.spawn(input)?);
        follow(&child, output, stop, log)?;
        child.reap()
    }

    fn spawn(&self, output: io::PipeWriter) -> Result<Pid> {
        let mut command = Command::new("bwrap");
        command.args(self.arguments()).stdin(Stdio::null());
        command.stderr(output.try_clone().or_build(|| "cannot make a pipe".to_owned())?).stdout(output);
        let processors = processors(self.jobs)?;
        let prepare = move || {
            // A session of its own has no terminal that something in the sandbox could type into, and is a group to be killed.
            rustix::process::setsid()?;
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
            rustix::thread::sched_setaffinity(None, &processors)?;
            Ok(())
        };
        // SAFETY: between fork and exec `prepare` makes three system calls and nothing else: it takes no lock and no memory.
        unsafe { command.pre_exec(prepare) };
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::build("the program `bwrap` is missing").hint("apt-get install bubblewrap"),
            _ => Error::build("cannot start `bwrap`").cause(error),
        })?;
        Ok(Pid::from_child(&child))
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| arguments.extend(words.iter().map(|word| word.as_ref().to_owned()));
        add(&[&"--unshare-all", &"--unshare-user", &"--uid", &"0", &"--gid", &"0", &"--cap-drop", &"ALL"]);
        add(&[&"--die-with-parent", &"--hostname", &"osbuild"]);
        add(&[&"--ro-bind", &self.action.root.path, &"/", &"--dev", &"/dev", &"--proc", &"/proc"]);
        add(&[&"--bind", &self.scratch.join("tmp"), &"/tmp", &"--bind", &self.scratch.join("build"), &BUILD]);
        add(&[&"--tmpfs", &TOOLCHAIN]);
        for toolchain in &self.action.toolchains {
            add(&[&"--ro-bind", &toolchain.path, &toolchain.mount()]);
        }
        add(&[&"--remount-ro", &TOOLCHAIN, &"--chdir", &BUILD, &"--clearenv"]);
        for (name, value) in self.action.environment() {
            add(&[&"--setenv", &name, &value]);
        }
        add(&[&"--"]);
        arguments.extend(self.action.argv.iter().map(OsString::from));
        arguments
    }
}

/// The processors that an action may use, so that what it calls the number of processors is the number of jobs. No action is told the
/// number in words: those would enter its digest.
fn processors(jobs: usize) -> Result<rustix::thread::CpuSet> {
    let ours = rustix::thread::sched_getaffinity(None).or_build(|| "cannot count the processors".to_owned())?;
    let mut theirs = rustix::thread::CpuSet::new();
    let allowed = (0..rustix::thread::CpuSet::MAX_CPU).filter(|processor| ours.is_set(*processor));
    allowed.take(jobs.max(1)).for_each(|processor| theirs.set(processor));
    Ok(theirs)
}

/// Hands on what the sandbox prints until bubblewrap ends, or until a stop is wished.
fn follow(child: &Group, mut output: PipeReader, stop: &Stop, log: &mut Log<'_>) -> Result<()> {
    let process = pidfd_open(child.0, PidfdFlags::empty()).or_build(|| "cannot watch `bwrap`".to_owned())?;
    let mut chunk = vec![0; 64 * 1024];
    while !stop.is_set() {
        let mut events = [PollFd::new(&process, PollFlags::IN), PollFd::new(&output, PollFlags::IN)];
        // Bubblewrap keeps its own copy of the pipe, so the pipe does not end before the process does.
        match poll(&mut events, Some(&LOOK)) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.or_build(|| "cannot watch `bwrap`".to_owned())?,
        };
        let [ended, printed] = events.map(|event| !event.revents().is_empty());
        if ended {
            child.kill();
            return drain(output, log, &mut chunk);
        }
        if printed {
            let read = output.read(&mut chunk).at("read what the step prints to", log.path())?;
            log.take(&chunk[..read])?;
        }
    }
    Ok(())
}

/// Takes what is left in the pipe. All that could write to it is being killed.
fn drain(mut output: PipeReader, log: &mut Log<'_>, chunk: &mut [u8]) -> Result<()> {
    loop {
        match output.read(chunk).at("read what the step prints to", log.path())? {
            0 => {
                log.end_line();
                return Ok(());
            }
            read => log.take(&chunk[..read])?,
        }
    }
}

/// The processes of one sandbox. Dropping it kills and reaps them all.
struct Group(Pid);

impl Group {
    fn kill(&self) {
        // The group may be gone already. The sandbox's first process is in it, and all others die with that one.
        let _ = kill_process_group(self.0, Signal::KILL);
    }

    /// Kills what still runs, and gives how bubblewrap ended and what all of it cost.
    fn reap(self) -> Result<Ended> {
        self.kill();
        let mut ended = Ended { status: None, cpu: Duration::ZERO };
        while let Some((pid, status, cpu)) = wait(self.0).or_build(|| "cannot wait for `bwrap`".to_owned())? {
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

/// Waits for one child of a group: its process, its status as wait(2) gives it, and its CPU time; `None` when there is no child left.
fn wait(group: Pid) -> io::Result<Option<(Pid, i32, Duration)>> {
    loop {
        let mut status = 0;
        // SAFETY: `rusage` is plain numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live variables of the types that wait4(2) writes.
        let pid = unsafe { libc::wait4(-group.as_raw_nonzero().get(), &mut status, 0, &mut usage) };
        match Pid::from_raw(pid.max(0)) {
            Some(pid) => return Ok(Some((pid, status, time(usage.ru_utime) + time(usage.ru_stime)))),
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
