//! The kubelet, containerd and a shim that end.

use super::{AWAY, Faults};
use crate::vm::cluster::joining::{NodeFile, install};
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

/// A daemon that ends is started again, and so is the pod of a shim that ends.
pub fn end(faults: &mut Faults) -> Result<()> {
    for daemon in ["kubelet", "containerd"] {
        faults.survives(&format!("the end of {daemon}"), |faults| {
            probe::command(faults.signal, |stream| write!(stream, "{daemon} KILL"))?;
            let line = format!("init: {daemon}: was ended by signal 9");
            faults.machine.wait_for(&line).map(drop)
        })?;
    }
    faults.survives("the end of a shim", a_shim_ends)?;
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
