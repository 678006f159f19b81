//! Pods that crash, and that take what they can get.

use super::{Faults, TIMEOUT};
use crate::vm::cluster::wait::{Seen, wait};
use osbuild::error::Result;
use std::thread::sleep;
use std::time::Duration;

/// A static pod that crashes, and the folder on DATA of such pods.
const CRASHING: &str = include_str!("crashing.yaml");
const FOLDER: &str = "/data/kubernetes/manifests";
const FILE: &str = "crashing.yaml";

/// A pod that takes memory, and pods that take processes, their log and their volume.
const GLUTTON: &str = include_str!("glutton.yaml");
const GREEDY: &str = include_str!("greedy.yaml");

/// How long a pod may go on to take what it can get.
const GREED: Duration = Duration::from_secs(90);

/// Why the pod that takes memory has ended: the kubelet evicted it, or the kernel killed it.
const END_OF_GLUTTON: &str = "get pod glutton -o \
    jsonpath={.status.reason}{.status.containerStatuses[0].state.terminated.reason}";

/// Whether the cluster shows that the node's memory is low.
const PRESSURE: &str =
    "get node NODE -o jsonpath={.status.conditions[?(@.type==\"MemoryPressure\")].status}";

/// Other pods go on.
pub fn misbehave(faults: &mut Faults) -> Result<()> {
    faults.survives("a static pod that crashes", |faults| {
        faults.as_root(&format!("mkdir -p {FOLDER}; echo '{CRASHING}' >{FOLDER}/{FILE}"))?;
        faults.hold(
            "a static pod that crashes is started at longer and longer intervals",
            "get pod crashing-NODE -o jsonpath={.status.containerStatuses[0].state.waiting.reason}",
            "CrashLoopBackOff",
        )?;
        faults.says("the console names a static pod that crashes", "crashing-")?;
        faults.as_root(&format!("rm {FOLDER}/{FILE}")).map(drop)
    })?;
    faults.kubectl.apply(GLUTTON)?;
    faults.survives("a pod that takes all memory", |faults| {
        let words = "get pod glutton -o jsonpath={.status.phase}";
        faults.hold("a pod that takes all memory is ended", words, "Failed")?;
        let reason = faults.kubectl.output(&END_OF_GLUTTON.split(' ').collect::<Vec<_>>())?;
        let is_known = ["Evicted", "OOMKilled"].iter().any(|known| reason.contains(known));
        let claim = "the cluster shows that a pod was ended because of its memory";
        faults.cluster.outcome.check(claim, is_known, || reason);
        // The kubelet starts no pod for five minutes after it ran low.
        faults.hold("the cluster shows that memory is free again", PRESSURE, "False")
    })?;
    faults.kubectl.apply(GREEDY)?;
    faults.survives("pods that take what they can get", |_| {
        sleep(GREED);
        Ok(())
    })?;
    faults.greedy_pods_are_limited()
}

impl Faults<'_> {
    /// A pod that does not stop to fork is killed or has its limit, a log has at most three files,
    /// and a pod that writes too much to its volume is evicted.
    fn greedy_pods_are_limited(&mut self) -> Result<()> {
        self.hold(
            "a pod beyond the size of its volume is evicted",
            "get pod hoarder -o jsonpath={.status.reason}",
            "Evicted",
        )?;
        let list = ["exec", "reader", "--", "bash", "-c", "ls /log/pods/default_chatter_*/chatter"];
        let rotated = wait(TIMEOUT, || {
            let files = self.kubectl.run(&list)?;
            let is_rotated = files.code == Some(0) && files.output.lines().count() > 1;
            Ok(if is_rotated { Seen::Yes(()) } else { Seen::NotYet(files.output) })
        })?;
        self.cluster.outcome.claim("a full log is rotated", rotated);
        self.hold("a pod that forks without an end is deleted", "delete pod bomb", "deleted")?;
        let files = self.kubectl.output(&list)?;
        let is_bounded = files.lines().count() <= 3;
        self.cluster.outcome.check("a log has at most three files", is_bounded, || files);
        self.hold("a pod that fills its log is deleted", "delete pod chatter", "deleted")
    }
}
