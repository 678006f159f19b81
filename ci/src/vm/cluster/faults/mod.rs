//! Faults of a cluster, of a node's daemons, of its pods, of its disk and of its clock, which the
//! node survives without a person.

mod boot;
mod clock;
mod daemons;
mod disk;
mod hour;
mod names;
mod network;
mod pods;

use super::control_plane::ControlPlane;
use super::joining::{NodeFile, document, join_with};
use super::kubectl::Kubectl;
use super::lab::Lab;
use super::registry::Registry;
use super::wait::{Seen, wait};
use super::{Cluster, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use crate::vm::qmp::Qmp;
pub use boot::a_node_boots_without_its_cluster;
pub use disk::a_node_survives_a_full_disk;
pub use hour::pods_survive_an_hour_without_the_cluster;
pub use names::a_node_survives_without_its_name_server;
use osbuild::error::Result;
use serde_json::Value;
use std::time::Duration;

/// The objects that survive, and the pod that causes faults.
const SURVIVORS: &str = include_str!("survivors.yaml");

/// How long a claim may take to hold: kubelet and controllers act at intervals of a minute.
const TIMEOUT: Duration = Duration::from_secs(400);

/// The pods of the Deployment.
const REPLICAS: usize = 2;

/// How long a fault lasts: longer than the 50 s after which a silent node is not Ready.
const AWAY: Duration = Duration::from_secs(90);

/// The containers of the Deployment, by their ids, and how often each was restarted.
const CONTAINERS: &str = "get pods -l app=steady -o \
    jsonpath={range.items[*]}{.status.containerStatuses[0].containerID}:\
    {.status.containerStatuses[0].restartCount};{end}";

/// Whether the node is Ready.
const IS_READY: &str =
    "get node NODE -o jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";

/// A container of another pod executes a program.
const IS_ALIVE: &str = "exec reader -- ls /log/pods";

/// Each fault ends with a node that is Ready, and with the same containers.
pub fn pods_survive_faults(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "faults")?;
    let mut faults = Faults::start(site, &lab, "faults")?;
    daemons::end(&mut faults)?;
    network::is_away(&mut faults)?;
    clock::jumps(&mut faults)?;
    pods::misbehave(&mut faults)?;
    faults.end()
}

/// A node in a cluster, and what causes faults.
struct Faults<'a> {
    site: &'a Site<'a>,
    lab: &'a Lab<'a>,
    cluster: Cluster,
    registry: Registry,
    kubectl: Kubectl<'a>,
    machine: NodeUnderTest<'a>,
    qmp: Qmp,
    /// Leads to [`probe::SIGNAL`].
    signal: u16,
    /// The node's object since its last boot.
    object: Value,
}

impl<'a> Faults<'a> {
    /// Boots a node that joins a cluster and runs [`SURVIVORS`].
    fn start(site: &'a Site<'a>, lab: &'a Lab<'a>, log: &str) -> Result<Self> {
        Self::start_with(site, lab, log, document)
    }

    /// Like [`Self::start`], with the node document that a function makes.
    fn start_with(
        site: &'a Site<'a>,
        lab: &'a Lab<'a>,
        log: &str,
        document: impl FnOnce(&ControlPlane) -> Result<NodeFile>,
    ) -> Result<Self> {
        let plane = ControlPlane::start(site)?;
        let mut cluster = Cluster { plane, outcome: Outcome::default() };
        let registry = Registry::start(site, cluster.plane.authority())?;
        cluster.plane.egress().route(serving::ADDRESS, lab.kubelet);
        let (qmp, signal) = (Qmp::new()?, free_port()?);
        let mut machine = powered_off(lab, &qmp, signal, log)?.boot()?;
        let document = document(&cluster.plane)?;
        join_with(document, registry.node_files(cluster.plane.authority())?, &lab.ports)?;
        let object = cluster.ready_node(&mut machine, None)?;
        let kubectl = Kubectl::new(site, &cluster.plane)?;
        let name = text(&object, "/metadata/name");
        serving::the_cluster_signs_it(&kubectl, name, &mut cluster.outcome)?;
        kubectl.apply(SURVIVORS)?;
        let mut faults =
            Faults { site, lab, cluster, registry, kubectl, machine, qmp, signal, object };
        faults.deployment_runs("a Deployment runs")?;
        faults.hold("a Pod runs", IS_ALIVE, "reader")?;
        faults.hold("a Pod with all rights runs", "exec root -- ls /data", "machine-id")?;
        Ok(faults)
    }

    /// The node's name.
    fn name(&self) -> &str {
        text(&self.object, "/metadata/name")
    }

    /// Cuts the power, and starts the machine again after a change.
    fn restart(self, log: &str, change: impl FnOnce(Machine<'a>) -> Machine<'a>) -> Result<Self> {
        self.machine.power_off()?;
        let machine = change(powered_off(self.lab, &self.qmp, self.signal, log)?).boot()?;
        Ok(Faults { machine, ..self })
    }

    /// Waits until the node is Ready after a restart.
    fn is_ready_again(&mut self) -> Result<()> {
        self.object = self.cluster.ready_node(&mut self.machine, Some(&self.object))?;
        Ok(())
    }

    fn end(self) -> Result<Outcome> {
        self.machine.power_off()?;
        let mut outcome = self.cluster.outcome;
        outcome.summary = format!("{} claims", outcome.passed);
        Ok(outcome)
    }

    /// The containers are the same ones after `fault`, and the node is Ready.
    fn survives(&mut self, name: &str, fault: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = self.containers()?;
        fault(self)?;
        self.hold(&format!("the node is Ready after {name}"), IS_READY, "True")?;
        self.hold(&format!("a container is reached after {name}"), IS_ALIVE, "reader")?;
        let after = self.containers()?;
        let claim = format!("containers go on after {name}");
        let go_on = before == after && before.matches("containerd://").count() == REPLICAS;
        self.cluster.outcome.check(&claim, go_on, || format!("{before} became {after}"));
        Ok(())
    }

    fn containers(&self) -> Result<String> {
        self.kubectl.output(&CONTAINERS.split(' ').collect::<Vec<_>>())
    }

    fn deployment_runs(&mut self, claim: &str) -> Result<()> {
        self.hold(claim, "rollout status deployment/steady --timeout=300s", "rolled out")
    }

    /// The node is Ready each time that this looks, for `time`.
    fn stays_ready(&mut self, claim: &str, time: Duration) -> Result<()> {
        let words = IS_READY.replace("NODE", self.name());
        let lost = wait(time, || {
            let ran = self.kubectl.run(&words.split(' ').collect::<Vec<_>>())?;
            Ok(match ran.output.contains("True") {
                true => Seen::NotYet(String::new()),
                false => Seen::Yes(ran.output),
            })
        })?;
        self.cluster.outcome.check(claim, lost.is_err(), || format!("Ready became {lost:?}"));
        Ok(())
    }

    /// `words` of kubectl, separated by single spaces, print `expected`. `NODE` is the node's name.
    fn hold(&mut self, claim: &str, words: &str, expected: &str) -> Result<()> {
        let words = words.replace("NODE", self.name());
        let words: Vec<&str> = words.split(' ').collect();
        let held = self.kubectl.until(TIMEOUT, &words, expected)?;
        self.cluster.outcome.claim(claim, held);
        Ok(())
    }

    /// The console prints `phrase`, sooner or later.
    fn says(&mut self, claim: &str, phrase: &str) -> Result<()> {
        let printed = wait(TIMEOUT, || {
            Ok(match self.machine.console()?.contains(phrase) {
                true => Seen::Yes(()),
                false => Seen::NotYet(format!("the console does not print `{phrase}`")),
            })
        })?;
        self.cluster.outcome.claim(claim, printed);
        Ok(())
    }

    /// Executes a script of bash in the pod with all rights, and returns its output.
    fn as_root(&self, script: &str) -> Result<String> {
        self.kubectl.output(&["exec", "root", "--", "bash", "-c", script])
    }
}

/// The machine of this lab.
fn powered_off<'a>(lab: &Lab<'a>, qmp: &Qmp, signal: u16, log: &str) -> Result<Machine<'a>> {
    Ok(lab.machine(log)?.arguments(qmp.arguments()).forward(signal, probe::SIGNAL))
}
