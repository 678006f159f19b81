//! The power button of a node in a cluster: its pods end by their grace, and the cluster knows why.

use super::api::condition;
use super::control_plane::{BIN, ControlPlane};
use super::joining::{Ports, bridge, join};
use super::wait::{Seen, wait};
use super::{Cluster, failed, text};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::kept_disk::KeptDisk;
use crate::vm::machine::{Machine, TIMEOUT};
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use crate::vm::qmp::Qmp;
use osbuild::error::{Error, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// The static pods of the node, as the cluster sees them.
const STATIC_PODS: &str = "/api/v1/namespaces/kube-system/pods";

/// The condition of pods that the kubelet ends before a shutdown, and its message
/// (`pkg/kubelet/nodeshutdown`). Unlike `status.message`, it also stays if the pod has succeeded.
const CONDITION: &str = "DisruptionTarget";
const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";

/// The argument with which the probe ends on SIGTERM, and what it writes to its termination log
/// then. Without it SIGTERM has no effect.
const ENDS: &str = "ends";
const LAST_WORDS: &str = "ended in order";

/// The grace in seconds of the pod that does not end.
const GRACE: u64 = 20;
/// How much longer the kubelet may take in an emulated machine, with the pods of the node.
const MARGIN: u64 = 40;

/// How soon the cluster has to know that the node is not Ready. A node that is only gone is
/// reported after 40 s or more.
const AT_ONCE: Duration = Duration::from_secs(20);

/// The grace of a pod that would hold up the second shutdown.
const LONG_GRACE: u64 = 45;
/// How long after the first press of the button the second one comes.
const PRESS_AGAIN: Duration = Duration::from_secs(4);

/// Lines of `init`.
const MAY_DELAY: &str = "init: logind: `kubelet` may delay a shutdown by 70 s";
const WAITS: &str = "init: shutdown: waits for `kubelet`, 70 s at most";
const DONE: &str = "init: shutdown: `kubelet` is done after ";
const HURRIES: &str = "init: shutdown: hurries";
const ENDS_NOW: &str = "init: shutdown: power off";

/// A pod that ends on SIGTERM, and one that does not, when the power button is pressed: the cluster
/// knows at once that the node is not Ready, and why each pod has ended; the second pod costs its
/// grace and no more, and a critical pod ends after both. At the next boot the button is pressed
/// twice, and no pod is waited for.
pub fn pods_end_in_order_before_the_node_does(site: &Site) -> Result<Outcome> {
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let disk = KeptDisk::of(site, probe::RECIPE)?;
    let qmp = Qmp::new()?;
    let machine = |log: &str| -> Result<Machine> {
        let machine = Machine::of_recipe(site, probe::RECIPE, log)?.keep(disk.path());
        let machine = machine.arguments(qmp.arguments());
        Ok(machine.forward(ports.place, probe::PLACE).forward(ports.socket, probe::SOCKET))
    };

    let mut node = machine("shutdown-in-order")?.boot()?;
    join(&cluster.plane, bridge(&site.project().join(BIN))?, &ports)?;
    let first = cluster.ready_node(&mut node, None)?;
    node.wait_until_printed(MAY_DELAY)?;
    cluster.run(&mut node, &pod("ends", GRACE, &[ENDS]))?;
    cluster.run(&mut node, &pod("ignores", GRACE, &[]))?;
    let mut critical = pod("critical", GRACE, &[ENDS]);
    critical["spec"]["priorityClassName"] = json!("system-cluster-critical");
    cluster.run(&mut node, &critical)?;
    let took = cluster.ends_in_order(&mut node, &qmp)?;
    drop(node);

    let mut node = machine("shutdown-hurries")?.boot()?;
    cluster.ready_node(&mut node, Some(&first))?;
    cluster.static_pods_run(&mut node)?;
    cluster.run(&mut node, &pod("holds", LONG_GRACE, &[]))?;
    let hurried = hurries(&mut node, &qmp)?;
    cluster
        .outcome
        .check("a second press hurries", hurried < LONG_GRACE, || format!("{hurried} s"));
    cluster.outcome.summary =
        format!("{took:.1} s for a grace of {GRACE} s; {hurried} s in a hurry");
    Ok(cluster.outcome)
}

/// A pod whose image is on the node.
fn pod(name: &str, grace: u64, arguments: &[&str]) -> Value {
    let container = json!({
        "name": name,
        "image": "localhost/probe:1",
        "imagePullPolicy": "Never",
        "args": arguments,
    });
    json!({
        "metadata": { "name": name },
        "spec": {
            "containers": [container],
            "dnsPolicy": "Default",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace,
        },
    })
}

impl Cluster {
    /// Creates a pod and waits until it runs.
    fn run(&mut self, machine: &mut NodeUnderTest, pod: &Value) -> Result<()> {
        let name = text(pod, "/metadata/name");
        self.plane.api().create(PODS, pod)?;
        let seen = wait(TIMEOUT, || {
            self.plane.is_running()?;
            machine.is_running()?;
            let status = self.pod(name)?;
            let runs = status.pointer("/status/containerStatuses/0/state/running").is_some();
            Ok(if runs { Seen::Yes(()) } else { Seen::NotYet(status["status"].to_string()) })
        })?;
        seen.map_err(|why| failed(machine, format!("the pod `{name}` does not run"), why))
    }

    /// The static pods run again: the end of the last boot is no end for them.
    fn static_pods_run(&mut self, machine: &mut NodeUnderTest) -> Result<()> {
        let seen = wait(TIMEOUT, || {
            machine.is_running()?;
            let pods = self.plane.api().list(STATIC_PODS)?;
            let phases: Vec<&str> = pods.iter().map(|pod| text(pod, "/status/phase")).collect();
            let run = !pods.is_empty() && phases.iter().all(|phase| *phase == "Running");
            Ok(if run { Seen::Yes(()) } else { Seen::NotYet(phases.join(", ")) })
        })?;
        self.outcome.claim("static pods run again after the reboot", seen);
        Ok(())
    }

    fn pod(&self, name: &str) -> Result<Value> {
        let pods = self.plane.api().list(PODS)?;
        let found = pods.into_iter().find(|pod| text(pod, "/metadata/name") == name);
        found.ok_or_else(|| Error::build(format!("the cluster has no pod `{name}`")))
    }

    /// Presses the power button, and returns how many seconds the kubelet took.
    fn ends_in_order(&mut self, machine: &mut NodeUnderTest, qmp: &Qmp) -> Result<f64> {
        let since = Instant::now();
        qmp.execute("system_powerdown", json!({}))?;
        machine.wait_for(WAITS)?;
        let unready = wait(TIMEOUT, || {
            let nodes = self.plane.api().list("/api/v1/nodes")?;
            let message = nodes.iter().find_map(|node| match condition(node, "Ready") {
                Some(("True", _)) | None => None,
                Some((_, message)) => Some(message.to_owned()),
            });
            Ok(message.map_or_else(|| Seen::NotYet("it is Ready".to_owned()), Seen::Yes))
        })?;
        let after = since.elapsed();
        let (message, holds) = match unready {
            Ok(message) => (message, after < AT_ONCE),
            Err(why) => (why, false),
        };
        self.outcome.check("the node is not Ready at once", holds, || {
            format!("after {after:?}: {message}")
        });
        self.outcome.check("the cluster knows why", message.contains("shutting down"), || message);

        let line = machine.wait_for(DONE)?;
        let seconds = line.split_once(DONE).and_then(|(_, took)| took.split(' ').next());
        let took: f64 = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        machine.wait_for(ENDS_NOW)?;
        machine.end()?;
        let bounds = GRACE as f64..(GRACE + MARGIN) as f64;
        self.outcome.check(
            "a pod that ignores SIGTERM costs its grace",
            bounds.contains(&took),
            || format!("the kubelet took {took} s"),
        );
        let first = self.has_ended("ends", 0, LAST_WORDS)?;
        let slow = self.has_ended("ignores", 137, "")?;
        let last = self.has_ended("critical", 0, LAST_WORDS)?;
        // Times of RFC 3339 in UTC have the order of their texts.
        self.outcome.check(
            "a critical pod ends after the others",
            !first.is_empty() && first < slow && slow <= last,
            || format!("they ended at {first}, {slow} and {last}"),
        );
        Ok(took)
    }

    /// The cluster knows why and how the pod has ended. Returns when.
    fn has_ended(&mut self, name: &str, code: u64, words: &str) -> Result<String> {
        let pod = self.pod(name)?;
        let status = || pod["status"].to_string();
        let because = condition(&pod, CONDITION);
        let claim = format!("the cluster knows why `{name}` has ended");
        self.outcome.check(&claim, because == Some(("True", MESSAGE)), status);
        let state = pod.pointer("/status/containerStatuses/0/state/terminated");
        let state = state.cloned().unwrap_or_default();
        let how = (state["exitCode"].as_u64(), text(&state, "/message"));
        let claim = format!("the cluster knows how `{name}` has ended");
        self.outcome.check(&claim, how == (Some(code), words), status);
        Ok(text(&state, "/finishedAt").to_owned())
    }
}

/// Presses the power button twice, and returns after how many seconds the machine was off.
fn hurries(machine: &mut NodeUnderTest, qmp: &Qmp) -> Result<u64> {
    let since = Instant::now();
    qmp.execute("system_powerdown", json!({}))?;
    machine.wait_for(WAITS)?;
    std::thread::sleep(PRESS_AGAIN);
    qmp.execute("system_powerdown", json!({}))?;
    machine.wait_for(HURRIES)?;
    machine.wait_for(ENDS_NOW)?;
    machine.end()?;
    Ok(since.elapsed().as_secs())
}
