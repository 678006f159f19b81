//! The kubelet, containerd, shims and a sandbox that end, and daemons that hang.

use super::{AWAY, Faults, TIMEOUT};
use crate::vm::cluster::joining::{NodeFile, install};
use crate::vm::cluster::wait::{Seen, wait};
use crate::vm::hung_daemons::status_of;
use crate::vm::probe;
use osbuild::error::Result;
use std::io::Write;
use std::thread::sleep;

/// Settings with which the kubelet does not start, in a drop-in, and harmless ones.
const DROP_IN: &str = "/etc/kubernetes/kubelet.conf.d/90-faults.conf";
const BAD: &str = "shutdownGracePeriod: 5s\nshutdownGracePeriodCriticalPods: 15s\n";
const GOOD: &str = "shutdownGracePeriod: 60s\n";
const KIND: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// The container of the Pod whose shim ends.
const CONTAINER: &str = "get pod reader -o jsonpath={.status.containerStatuses[0].containerID}";

/// Prints the processes of the container `ID`, and the parent of each: its shim.
const PROCESSES: &str = "for process in /proc/[0-9]*; do \
     if [[ $(<$process/cgroup) == *ID* ]]; then \
     while read -r key value; do [[ $key == PPid: ]] && echo $value; done <$process/status; \
     fi; done 2>/dev/null; true";

/// The programs of the node's own pods.
const OWN: [&str; 2] = ["dhcp", "time"];
/// Prints the process of the program `NAME`. The scripts after it end the shim of that process,
/// which the node's own pods share, and its sandbox, with which that shim has started.
const OWN_PROCESS: &str = "for process in /proc/[0-9]*; do \
     if [[ $(<$process/comm) == NAME ]]; then echo ${process#/proc/}; fi; done 2>/dev/null; true";
const END_OF_SHIM: &str = "while read -r key value; do \
     if [[ $key == PPid: ]]; then kill -KILL $value; fi; done </proc/PROCESS/status";
const END_OF_SANDBOX: &str = "IFS=: read -r _ _ group </proc/PROCESS/cgroup; \
     for file in /sys/fs/cgroup${group%/*}/*/cgroup.procs; do \
     while read -r process; do kill -KILL $process; done <$file; done";

/// A daemon that ends or hangs is started again, and so is the pod of a shim that ends.
pub fn end(faults: &mut Faults) -> Result<()> {
    for daemon in ["kubelet", "containerd"] {
        faults.survives(&format!("the end of {daemon}"), |faults| {
            probe::command(faults.signal, |stream| write!(stream, "{daemon} KILL"))?;
            let line = format!("init: {daemon}: was ended by signal 9");
            faults.machine.wait_for(&line).map(drop)
        })?;
    }
    faults.survives("the end of a shim", a_shim_ends)?;
    for (name, script, ended) in [
        ("the end of the sandbox of one of the node's own pods", END_OF_SANDBOX, &OWN[..1]),
        ("the end of the shim of the node's own pods", END_OF_SHIM, &OWN[..]),
    ] {
        faults.survives(name, |faults| own_pods_return(faults, name, script, ended))?;
    }
    // They have run for minutes by now: `init` asks them.
    for daemon in ["kubelet", "containerd"] {
        faults.survives(&format!("a {daemon} that hangs"), |faults| hangs(faults, daemon))?;
    }
    faults.survives("a kubelet that does not start", |faults| {
        let drop_in = |text| [NodeFile::new(DROP_IN, 0o644, format!("{KIND}{text}"))];
        install(&drop_in(BAD), &faults.lab.ports)?;
        faults.says(
            "the console names the setting with which the kubelet does not start",
            "invalid configuration: shutdownGracePeriodCriticalPods",
        )?;
        sleep(AWAY);
        install(&drop_in(GOOD), &faults.lab.ports)
    })
}

/// A daemon is stopped, and does not end by itself. `init` replaces it.
fn hangs(faults: &mut Faults, daemon: &str) -> Result<()> {
    let socket = faults.lab.ports.socket;
    let before = status_of(socket, daemon)?;
    probe::command(faults.signal, |stream| write!(stream, "{daemon} STOP"))?;
    faults.machine.wait_for(&format!("init: health: {daemon} has given no answer"))?;
    let replaced = wait(TIMEOUT, || {
        let now = status_of(socket, daemon).unwrap_or_else(|error| error.to_string());
        Ok(match now != before && now.contains(" running ") {
            true => Seen::Yes(()),
            false => Seen::NotYet(format!("{before} became {now}")),
        })
    })?;
    faults.cluster.outcome.claim(&format!("`init` replaces a {daemon} that hangs"), replaced);
    Ok(())
}

/// These programs of the node's own pods have other processes after the script, which gets the
/// process of the first one.
fn own_pods_return(faults: &mut Faults, name: &str, script: &str, programs: &[&str]) -> Result<()> {
    let before = programs.iter().map(|program| own_process(faults, program));
    let before = before.collect::<Result<Vec<_>>>()?;
    faults.as_root(&script.replace("PROCESS", &before[0]))?;
    for (program, process) in programs.iter().zip(&before) {
        let returned = wait(TIMEOUT, || {
            let now = own_process(faults, program)?;
            Ok(match now.is_empty() || now == *process {
                true => Seen::NotYet(format!("{process} became {now}")),
                false => Seen::Yes(()),
            })
        })?;
        faults.cluster.outcome.claim(&format!("`{program}` returns after {name}"), returned);
    }
    Ok(())
}

fn own_process(faults: &Faults, program: &str) -> Result<String> {
    let found = faults.as_root(&OWN_PROCESS.replace("NAME", program))?;
    Ok(found.trim().to_owned())
}

/// The Pod whose shim was killed has another container, and no process of the old one is left.
fn a_shim_ends(faults: &mut Faults) -> Result<()> {
    let words: Vec<&str> = CONTAINER.split(' ').collect();
    let container = faults.kubectl.output(&words)?;
    let processes = PROCESSES.replace("ID", container.trim_start_matches("containerd://"));
    let shim = faults.as_root(&processes)?;
    faults.as_root(&format!("kill -KILL {}", shim.replace('\n', " ")))?;
    faults.hold(
        "a Pod whose shim was killed has another container",
        "get pod reader -o jsonpath={.status.containerStatuses[0].restartCount}",
        "1",
    )?;
    let left = faults.as_root(&processes)?;
    let claim = "no process is left of a container whose shim was killed";
    faults.cluster.outcome.check(claim, left.is_empty(), || left);
    Ok(())
}
