//! Faults of a cluster, of a node's daemons and of its pods, which the other pods survive.

use super::control_plane::ControlPlane;
use super::joining::join;
use super::kubectl::Kubectl;
use super::lab::Lab;
use super::registry::Registry;
use super::{Cluster, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::probe::{self, free_port};
use crate::vm::qmp::Qmp;
use osbuild::error::Result;
use serde_json::json;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

/// The objects of this check.
const SURVIVORS: &str = include_str!("faults.yaml");
const GREEDY: &str = include_str!("greedy.yaml");

/// How long a claim may take to hold: kubelet and controllers act at intervals of a minute.
const TIMEOUT: Duration = Duration::from_secs(400);

/// The pods of the Deployment.
const REPLICAS: usize = 2;

/// How long the API server is away: longer than the 50 s after which a silent node is not Ready.
const AWAY: Duration = Duration::from_secs(90);

/// How long a pod may go on to take what it can get.
const GREED: Duration = Duration::from_secs(90);

/// The containers of the Deployment, by their ids, and how often each was restarted.
const CONTAINERS: &str = "get pods -l app=steady -o \
    jsonpath={range.items[*]}{.status.containerStatuses[0].containerID}:\
    {.status.containerStatuses[0].restartCount};{end}";

/// Whether the node is Ready.
const IS_READY: &str =
    "get node NODE -o jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";

/// A container of another pod executes a program.
const IS_ALIVE: &str = "exec reader -- ls /log/pods";

/// The node and its administrator's program, and which claims hold so far.
struct Faults<'a> {
    kubectl: Kubectl<'a>,
    node: String,
    outcome: Outcome,
}

/// Each fault ends with a node that is Ready, and with the same containers.
pub fn pods_survive_faults(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "faults")?;
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start(site, cluster.plane.authority())?;
    cluster.plane.egress().route(serving::ADDRESS, lab.kubelet);
    let (qmp, signal) = (Qmp::new()?, free_port()?);
    let machine = lab.machine("faults")?.arguments(qmp.arguments());
    let mut node = machine.forward(signal, probe::SIGNAL).boot()?;
    join(&cluster.plane, registry.node_files(cluster.plane.authority())?, &lab.ports)?;
    let object = cluster.ready_node(&mut node, None)?;
    let name = text(&object, "/metadata/name").to_owned();
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    serving::the_cluster_signs_it(&kubectl, &name, &mut cluster.outcome)?;
    kubectl.apply(SURVIVORS)?;
    let outcome = std::mem::take(&mut cluster.outcome);
    let mut faults = Faults { kubectl, node: name, outcome };
    faults.hold(
        "a Deployment runs",
        "rollout status deployment/steady --timeout=300s",
        "rolled out",
    )?;
    faults.hold("a Pod runs", IS_ALIVE, "reader")?;

    for daemon in ["kubelet", "containerd"] {
        faults.survives(&format!("the end of {daemon}"), |_| {
            probe::command(signal, |stream| write!(stream, "{daemon} KILL"))?;
            node.wait_for(&format!("init: {daemon}: was ended by signal 9")).map(drop)
        })?;
    }
    faults.survives("an API server that is away", |_| {
        cluster.plane.stop_serving();
        sleep(AWAY);
        cluster.plane.serve(site)
    })?;
    faults.survives("a network that is away", |faults| {
        let link = |up: bool| qmp.execute("set_link", json!({ "name": "net", "up": up }));
        link(false)?;
        faults.hold("a node without a network is not Ready", IS_READY, "Unknown")?;
        link(true)
    })?;
    faults.kubectl.apply(GREEDY)?;
    faults.survives("pods that take what they can get", |_| {
        sleep(GREED);
        Ok(())
    })?;
    faults.greedy_pods_are_limited()?;
    node.power_off()?;
    faults.outcome.summary = format!("{} claims", faults.outcome.passed);
    Ok(faults.outcome)
}

impl Faults<'_> {
    /// The containers are the same ones after `fault`, and the node is Ready.
    fn survives(&mut self, name: &str, fault: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = self.containers()?;
        fault(self)?;
        self.hold(&format!("the node is Ready after {name}"), IS_READY, "True")?;
        self.hold(&format!("a container is reached after {name}"), IS_ALIVE, "reader")?;
        let after = self.containers()?;
        let claim = format!("containers go on after {name}");
        let go_on = before == after && before.matches("containerd://").count() == REPLICAS;
        self.outcome.check(&claim, go_on, || format!("{before} became {after}"));
        Ok(())
    }

    fn containers(&self) -> Result<String> {
        self.kubectl.output(&CONTAINERS.split(' ').collect::<Vec<_>>())
    }

    /// A pod that does not stop to fork is killed or has its limit, a log has at most three files,
    /// and a pod that writes too much to its volume is evicted.
    fn greedy_pods_are_limited(&mut self) -> Result<()> {
        self.hold(
            "a pod beyond the size of its volume is evicted",
            "get pod hoarder -o jsonpath={.status.reason}",
            "Evicted",
        )?;
        let list = "ls /log/pods/default_chatter_*/chatter";
        let files = self.kubectl.output(&["exec", "reader", "--", "bash", "-c", list])?;
        let is_bounded = (2..=3).contains(&files.lines().count());
        self.outcome.check(
            "a full log is rotated, and has at most three files",
            is_bounded,
            || files,
        );
        self.hold("a pod that forks without an end is deleted", "delete pod bomb", "deleted")?;
        self.hold("a pod that fills its log is deleted", "delete pod chatter", "deleted")
    }

    /// `words` of kubectl, separated by single spaces, print `expected`. `NODE` is the node's name.
    fn hold(&mut self, claim: &str, words: &str, expected: &str) -> Result<()> {
        let words = words.replace("NODE", &self.node);
        let words: Vec<&str> = words.split(' ').collect();
        self.outcome.claim(claim, self.kubectl.until(TIMEOUT, &words, expected)?);
        Ok(())
    }
}
