//! As many pods on one node as the kubelet allows.

use super::control_plane::ControlPlane;
use super::joining::join;
use super::kubectl::Kubectl;
use super::lab::Lab;
use super::registry::Registry;
use super::wait::{Seen, wait};
use super::{Cluster, text};
use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::Result;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The objects: a Deployment that has no pods yet, and a Job that is suspended.
const OBJECTS: &str = include_str!("many_pods.yaml");

/// The pods of the Deployment, and all pods.
const CROWD: &str = "/api/v1/namespaces/default/pods?labelSelector=app=crowd";
const ALL: &str = "/api/v1/pods";

/// How many pods a kubelet runs whose settings do not say otherwise (`maxPods`).
const MAX_PODS: usize = 110;

/// The memory of the node in MiB: each pod has a shim and a program.
const MEMORY_MIB: u64 = 6144;

/// How long the emulated node may take to start all pods.
const START_TIMEOUT: Duration = Duration::from_secs(1800);

/// How long it may take to end all pods and to run the Job, and a pod to wait.
const JOB_TIMEOUT: &str = "--timeout=2400s";
const TIMEOUT: Duration = Duration::from_secs(240);

/// The identifiers of containers.
type Containers = BTreeSet<String>;

/// A node runs as many pods as the kubelet allows. Its power fails, and they start at once. Then a
/// Job of 200 pods completes.
pub fn a_node_runs_as_many_pods_as_the_kubelet_allows(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "workloads")?;
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start(site, cluster.plane.authority())?;
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    let mut node = lab.machine("many-pods-first")?.memory(MEMORY_MIB).processors(2).boot()?;
    join(&cluster.plane, registry.node_files(cluster.plane.authority())?, &lab.ports)?;
    let first = cluster.ready_node(&mut node, None)?;
    kubectl.apply(OBJECTS)?;
    let room = MAX_PODS - cluster.plane.api().list(ALL)?.len();
    kubectl.output(&["scale", "deployment/crowd", &format!("--replicas={}", room + 1)])?;
    let filled = Instant::now();
    let before = all_run(&cluster.plane, room, &BTreeSet::new())?;
    let filled = filled.elapsed().as_secs();
    claim(&mut cluster.outcome, "a node runs as many pods as the kubelet allows", &before);
    let waits = one_waits(&cluster.plane)?;
    cluster.outcome.claim("one more pod waits for room", waits);
    drop(node);

    let again = Instant::now();
    let mut node = lab.machine("many-pods-again")?.memory(MEMORY_MIB).processors(2).boot()?;
    let booted = again.elapsed().as_secs();
    cluster.ready_node(&mut node, Some(&first))?;
    let after = all_run(&cluster.plane, room, &before.unwrap_or_default())?;
    let again = again.elapsed().as_secs();
    claim(&mut cluster.outcome, "all of them start at once after a power cut", &after);

    // The pods end before the Job begins, so that its time is its own.
    kubectl.output(&["delete", "deployment/crowd", "--cascade=foreground", JOB_TIMEOUT])?;
    kubectl.output(&["patch", "job/many", "--patch", "{\"spec\":{\"suspend\":false}}"])?;
    let job = Instant::now();
    let words = ["wait", "job/many", "--for=condition=Complete", JOB_TIMEOUT];
    kubectl.claim(&mut cluster.outcome, TIMEOUT, "a Job of 200 pods completes", &words, "met")?;
    node.is_running()?;
    cluster.outcome.summary = format!(
        "{} claims; {room} pods within {filled} s; READY {booted} s and all pods {again} s after \
         the power came back; the Job within {} s",
        cluster.outcome.passed,
        job.elapsed().as_secs(),
    );
    Ok(cluster.outcome)
}

/// Claims that the pods run.
fn claim(outcome: &mut Outcome, claim: &str, running: &std::result::Result<Containers, String>) {
    outcome.claim(claim, running.as_ref().map(drop).map_err(Clone::clone));
}

/// The containers of `room` pods that are ready, once there are so many and none is of `before`.
fn all_run(
    plane: &ControlPlane,
    room: usize,
    before: &Containers,
) -> Result<std::result::Result<Containers, String>> {
    wait(START_TIMEOUT, || {
        let pods = plane.api().list(CROWD)?;
        let ready = pods.iter().map(|pod| &pod["status"]["containerStatuses"][0]);
        let ready = ready.filter(|container| container["ready"] == true);
        let ready: Containers = ready.map(|one| text(one, "/containerID").to_owned()).collect();
        let new = ready.difference(before).count();
        Ok(match new == room {
            true => Seen::Yes(ready),
            false => Seen::NotYet(format!("{new} of {room} pods are ready")),
        })
    })
}

/// One pod has no node, as the scheduler finds no room on the only one.
fn one_waits(plane: &ControlPlane) -> Result<std::result::Result<(), String>> {
    wait(TIMEOUT, || {
        let pods = plane.api().list(CROWD)?;
        let waits = |pod: &&Value| {
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            pod["spec"]["nodeName"].is_null()
                && conditions.any(|one| text(one, "/message").contains("Too many pods"))
        };
        Ok(match pods.iter().filter(waits).count() {
            1 => Seen::Yes(()),
            count => Seen::NotYet(format!("{count} pods wait for room")),
        })
    })
}
