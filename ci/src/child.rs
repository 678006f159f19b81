//! Programs that checks start on this host. They end with the check, also if the user ends it; only
//! a short one may go on to its end if a second Ctrl-C follows the first within a moment.

use osbuild::error::{Context, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often a running program is interrupted to look whether the user wants to stop.
const INTERVAL: Duration = Duration::from_millis(100);

/// How long a program may take to end in order.
const GRACE: Duration = Duration::from_secs(20);

/// A program that is killed when the thread that starts it ends, so also with this process: after a
/// second Ctrl-C or SIGKILL no code of ours ends it.
pub fn tied(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// The same program, which is asked to end when the thread that starts it ends. It must not have
/// its standard streams yet.
pub fn ended_in_order(program: &Command) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(program.get_program()).args(program.get_args());
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Runs a command to its end, in a process group of its own: Ctrl-C on a terminal reaches it only
/// through us. `go_on` is asked again and again.
///
/// # Errors
/// The command cannot be started, or `go_on` returned an error: then the command has ended, and so
/// have all processes of its group.
pub fn run(
    command: &mut Command,
    cannot: impl FnOnce() -> String,
    go_on: impl Fn() -> Result<()>,
) -> Result<ExitStatus> {
    go_on()?;
    let mut child = match command.process_group(0).spawn() {
        Ok(child) => child,
        error => error.or_build(cannot)?,
    };
    let id = Pid::from_child(&child);
    let went_on = thread::scope(|scope| {
        let (end, ended) = channel();
        scope.spawn(move || {
            // The process remains a zombie until it is waited for below, and keeps its identifier.
            let _ = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            // The receiver is there until this thread has ended.
            let _ = end.send(());
        });
        loop {
            match ended.recv_timeout(INTERVAL) {
                Err(RecvTimeoutError::Timeout) => match go_on() {
                    Ok(()) => {}
                    stopped => {
                        stop(id, &ended);
                        return stopped;
                    }
                },
                _ => return Ok(()),
            }
        }
    });
    let status = child.wait().or_build(|| "cannot wait for a program".to_owned());
    went_on.and(status)
}

/// Ends the group of a process: in order if the process does so in time.
fn stop(id: Pid, ended: &Receiver<()>) {
    // Both fail only if the group is empty already.
    let _ = kill_process_group(id, Signal::TERM);
    let _ = ended.recv_timeout(GRACE);
    let _ = kill_process_group(id, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild::error::{Error, Kind};
    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    /// The state of a process (proc_pid_stat(5)).
    fn state(id: &str) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    fn is_gone(id: &str) -> bool {
        let began = Instant::now();
        while state(id).is_some_and(|state| state != 'Z') {
            if began.elapsed() > Duration::from_secs(10) {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// The identifier in a file, once it is there.
    fn written(file: &Path) -> Option<String> {
        fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))
    }

    #[test]
    fn a_request_to_stop_leaves_no_process_of_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $! >$0.new; mv $0.new $0; wait"]).arg(&file);
        let go_on = || written(&file).map_or(Ok(()), |_| Err(Error::stopped()));
        let error = run(&mut command, String::new, go_on).unwrap_err();
        assert_eq!(error.kind, Kind::Stopped);
        assert!(is_gone(written(&file).unwrap().trim()), "its child runs on");
    }

    #[test]
    fn a_command_that_ends_by_itself_has_its_exit_code() {
        let mut command = Command::new("sh");
        let status = run(command.args(["-c", "exit 7"]), String::new, || Ok(())).unwrap();
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn a_tied_program_ends_with_the_thread_that_started_it() {
        let started = thread::spawn(|| {
            let id = tied("sleep").arg("600").spawn().unwrap().id();
            // `setpriv` is tied from its first moments on, and becomes the program.
            let comm = format!("/proc/{id}/comm");
            while fs::read_to_string(&comm).unwrap() != "sleep\n" {
                thread::sleep(Duration::from_millis(10));
            }
            id
        });
        assert!(is_gone(&started.join().unwrap().to_string()));
    }
}
