//! Signals to the daemons of the host.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Has a daemon stand still: `NAME STOP`.
pub fn send(proc: &Path, words: &str) -> io::Result<()> {
    let Some((name, "STOP")) = words.trim_end().split_once(' ') else {
        return Err(io::Error::other(format!("`{words}` is not `NAME STOP`")));
    };
    let pid = find(proc, name)?.ok_or_else(|| io::Error::other(format!("no `{name}` runs")))?;
    Ok(kill_process(pid, Signal::STOP)?)
}

/// The process in the mount namespace of this program's first one whose program is `/bin/NAME`.
fn find(proc: &Path, name: &str) -> io::Result<Option<Pid>> {
    let host = fs::read_link(proc.join("1/ns/mnt"))?;
    for entry in fs::read_dir(proc)? {
        let folder = entry?.path();
        let Some(number) = folder.file_name().and_then(|name| name.to_str()?.parse().ok()) else {
            continue;
        };
        // A process may end while it is looked at; the kernel's own have no program.
        let (Ok(namespace), Ok(program)) =
            (fs::read_link(folder.join("ns/mnt")), fs::read_link(folder.join("exe")))
        else {
            continue;
        };
        if namespace == host && program.file_name().is_some_and(|found| found == name) {
            return Ok(Pid::from_raw(number));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_stop_is_sent_and_only_to_what_runs() {
        assert!(send(Path::new("/proc"), "kubelet KILL").is_err());
        assert!(send(Path::new("/proc"), "no-such-program STOP").is_err());
    }
}
