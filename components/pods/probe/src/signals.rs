//! Sends signals to the host's daemons and to programs of pods.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Stops, continues or kills a program, on the request `NAME STOP`, `NAME CONT` or `NAME KILL`.
pub fn send(proc: &Path, request: &str) -> io::Result<()> {
    let (name, signal) = match request.trim_end().split_once(' ') {
        Some((name, "STOP")) => (name, Signal::STOP),
        Some((name, "CONT")) => (name, Signal::CONT),
        Some((name, "KILL")) => (name, Signal::KILL),
        _ => {
            return Err(io::Error::other(format!(
                "`{request}` is not `NAME STOP`, `NAME CONT` or `NAME KILL`"
            )));
        }
    };
    let pid = find(proc, name)?.ok_or_else(|| io::Error::other(format!("no `{name}` runs")))?;
    Ok(kill_process(pid, signal)?)
}

/// Finds the process that runs the program `NAME`: a daemon, which is in PID 1's mount namespace,
/// or else one of a pod. A program that runs as another one has another name (proc(5), `comm`).
fn find(proc: &Path, name: &str) -> io::Result<Option<Pid>> {
    let host = fs::read_link(proc.join("1/ns/mnt"))?;
    let mut of_pod = None;
    for entry in fs::read_dir(proc)? {
        let folder = entry?.path();
        let Some(number) = folder.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        // A process may end at any time, and kernel threads have no program.
        let (Ok(namespace), Ok(program)) =
            (fs::read_link(folder.join("ns/mnt")), fs::read_link(folder.join("exe")))
        else {
            continue;
        };
        let runs_as = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        let is_named = name.starts_with(runs_as.trim_end()) && !runs_as.trim_end().is_empty();
        if program.file_name().is_none_or(|found| found != name) || !is_named {
            continue;
        }
        if namespace == host {
            return Ok(Pid::from_raw(number));
        }
        of_pod = Pid::from_raw(number);
    }
    Ok(of_pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stop_or_a_kill_to_a_running_program_is_sent() {
        assert!(send(Path::new("/proc"), "kubelet TERM").is_err());
        assert!(send(Path::new("/proc"), "no-such-program STOP").is_err());
    }
}
