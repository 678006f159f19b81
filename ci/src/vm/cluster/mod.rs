//! A node joins a cluster of stock software, does its work there, and is the same node after it was
//! off.

mod api;
mod certificates;
mod control_plane;
mod joining;
mod lost;
mod process;
mod wait;

use super::inside::PROBE;
use super::kept::Kept;
use super::node::{Node, free_port};
use crate::check::Verdict;
use crate::site::Site;
use api::condition;
use control_plane::{BIN, ControlPlane};
use joining::{PLACE, PODS, Ports, SAY, join};
pub use lost::a_release_that_loses_the_cluster_goes_back;
use osbuild::error::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use wait::{Seen, wait};

/// How long the cluster and the node may take for each step: an emulated node is slow.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The host name that DHCP gives at the second boot.
const NAME_BY_DHCP: &str = "edge-7";

/// How many pods the deployment has: two, so that each has to get an address that the other one has
/// not.
const REPLICAS: usize = 2;

/// A node joins by a bootstrap token and is Ready. The pods of a deployment are scheduled to it,
/// have addresses of their own, and the kubelet reaches them there. Then the power goes. At its
/// next boot the network's DHCP gives a host name, and it is the same node, Ready, and the only
/// one, with the same pods.
pub fn a_node_joins_runs_pods_and_is_the_same_after_a_reboot(site: &Site) -> Result<Verdict> {
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, verdict: Verdict::default() };
    let ports = Ports { place: free_port()?, say: free_port()? };
    let forwards =
        [(ports.place, PLACE), (ports.say, SAY)].map(|(here, there)| format!("{here}:{there}"));
    let flags = ["--keep", "--forward", &forwards[0], "--forward", &forwards[1]];
    let _kept = Kept::of(site, PROBE);
    let mut machine = Node::boot(site, "cluster-joins", PROBE, &flags)?;
    join(&cluster.plane, &site.project().join(BIN), &ports)?;
    let first = cluster.ready_node(&mut machine, None)?;
    cluster.kubelet_never_failed(&machine)?;
    cluster.deploy()?;
    let before = cluster.pods_run(&mut machine, &[])?;
    drop(machine);

    let mut machine = Node::boot(
        site,
        "cluster-reboots",
        PROBE,
        &[&flags[..], &["--hostname", NAME_BY_DHCP]].concat(),
    )?;
    let second = cluster.ready_node(&mut machine, Some(&first))?;
    let after = cluster.pods_run(&mut machine, &before)?;
    cluster.is_the_same(&first, &second)?;
    cluster.has_the_same_pods(&before, &after);
    cluster.verdict.said =
        format!("{}, {} of {REPLICAS} pods", text(&second, "/metadata/name"), after.len());
    Ok(cluster.verdict)
}

struct Cluster {
    plane: ControlPlane,
    verdict: Verdict,
}

impl Cluster {
    /// Waits until a node is Ready that has booted since it was `before`.
    fn ready_node(&mut self, machine: &mut Node, before: Option<&Value>) -> Result<Value> {
        let boot = "/status/nodeInfo/bootID";
        let seen = wait(TIMEOUT, || {
            self.plane.is_running()?;
            machine.is_running()?;
            let nodes = self.plane.api().list("/api/v1/nodes")?;
            let ready = |node: &&Value| {
                condition(node, "Ready").is_some_and(|(status, _)| status == "True")
            };
            let fresh =
                |node: &&Value| before.is_none_or(|before| text(before, boot) != text(node, boot));
            Ok(match nodes.iter().find(|node| ready(node) && fresh(node)) {
                Some(node) => Seen::Yes(node.clone()),
                None => Seen::NotYet(self.unready(&nodes)),
            })
        })?;
        let when = if before.is_some() { "after its reboot" } else { "after it was told to join" };
        let node = seen.map_err(|why| failed(machine, format!("no node is Ready {when}"), why))?;
        self.verdict.passed += 1;
        Ok(node)
    }

    /// Until it joined, the kubelet ran without a cluster, and the drop-in for that cluster did not
    /// end it.
    fn kubelet_never_failed(&mut self, machine: &Node) -> Result<()> {
        let said = machine.said()?;
        let ended = said.lines().find(|line| line.contains("kubelet: ended with exit code"));
        let holds = ended.map_or(Ok(()), |line| Err(line.to_owned()));
        self.verdict
            .claim("settings for a cluster do not end a kubelet that waits for its name", holds);
        Ok(())
    }

    /// Why none of the nodes is Ready.
    fn unready(&self, nodes: &[Value]) -> String {
        let state = |node: &Value| {
            let (status, message) =
                condition(node, "Ready").unwrap_or(("Unknown", "it has said nothing yet"));
            format!("`{}`: Ready is {status}: {message}", text(node, "/metadata/name"))
        };
        match nodes.iter().map(state).collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => "the cluster has no node".to_owned(),
            states => states,
        }
    }

    /// A deployment of pods with an image that the node has, which listens on a port that the
    /// kubelet asks.
    fn deploy(&self) -> Result<()> {
        let labels = json!({ "app": "ordinary" });
        let container = json!({
            "name": "listens",
            "image": "localhost/probe:1",
            "imagePullPolicy": "Never",
            "readinessProbe": { "tcpSocket": { "port": SAY }, "periodSeconds": 1 },
        });
        let pod = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container], "dnsPolicy": "Default" } });
        let spec =
            json!({ "replicas": REPLICAS, "selector": { "matchLabels": labels }, "template": pod });
        let deployment = json!({ "metadata": { "name": "ordinary" }, "spec": spec });
        self.plane
            .api()
            .create("/apis/apps/v1/namespaces/default/deployments", &deployment)
            .map(drop)
    }

    /// Waits until all pods of the deployment are Ready with containers that ran not yet when they
    /// were `before`, and gives them.
    fn pods_run(&mut self, machine: &mut Node, before: &[Value]) -> Result<Vec<Value>> {
        let container = "/status/containerStatuses/0/containerID";
        let ended: BTreeSet<&str> = before.iter().map(|pod| text(pod, container)).collect();
        let seen = wait(TIMEOUT, || {
            self.plane.is_running()?;
            machine.is_running()?;
            let pods = self.plane.api().list("/api/v1/namespaces/default/pods")?;
            let is_ready =
                |pod: &Value| condition(pod, "Ready").is_some_and(|(status, _)| status == "True");
            let runs = |pod: &Value| is_ready(pod) && !ended.contains(text(pod, container));
            Ok(match pods.len() == REPLICAS && pods.iter().all(runs) {
                true => Seen::Yes(pods),
                false => Seen::NotYet(self.idle(&pods)?),
            })
        })?;
        let pods = seen.map_err(|why| {
            failed(machine, "the pods of the deployment are not Ready".to_owned(), why)
        })?;
        let addresses: Vec<&str> = pods.iter().map(|pod| text(pod, "/status/podIP")).collect();
        let own = addresses.iter().all(|address| address.starts_with(PODS))
            && addresses[0] != addresses[1];
        let holds = if own { Ok(()) } else { Err(addresses.join(", ")) };
        self.verdict.claim("each pod has an address of its own", holds);
        Ok(pods)
    }

    /// Why the pods do not run: what the cluster was told of them.
    fn idle(&self, pods: &[Value]) -> Result<String> {
        let events =
            "/api/v1/namespaces/default/events?fieldSelector=type=Warning,involvedObject.kind=Pod";
        let events = self.plane.api().list(events)?;
        // Each try has an event of its own, and they say the same.
        let last = events
            .iter()
            .max_by_key(|event| text(event, "/lastTimestamp"))
            .map_or("", |event| text(event, "/message"));
        let phases: Vec<&str> = pods.iter().map(|pod| text(pod, "/status/phase")).collect();
        Ok(format!("{} pods, {}: {last}", pods.len(), phases.join(", ")))
    }

    fn is_the_same(&mut self, before: &Value, after: &Value) -> Result<()> {
        for (claim, field) in [
            ("its name is the same", "/metadata/name"),
            ("its object is the same", "/metadata/uid"),
            ("its machine id is the same", "/status/nodeInfo/machineID"),
        ] {
            let (was, is) = (text(before, field), text(after, field));
            self.verdict.claim(
                claim,
                if was == is { Ok(()) } else { Err(format!("it was `{was}` and is `{is}`")) },
            );
        }
        let nodes = self.plane.api().list("/api/v1/nodes")?;
        let names: Vec<&str> = nodes.iter().map(|node| text(node, "/metadata/name")).collect();
        self.verdict.claim(
            "it is the only node",
            if names.len() == 1 { Ok(()) } else { Err(names.join(", ")) },
        );
        Ok(())
    }

    fn has_the_same_pods(&mut self, before: &[Value], after: &[Value]) {
        let names = |pods: &[Value]| {
            let mut names: Vec<String> =
                pods.iter().map(|pod| text(pod, "/metadata/uid").to_owned()).collect();
            names.sort();
            names.join(", ")
        };
        let (were, are) = (names(before), names(after));
        self.verdict.claim(
            "its pods are the same",
            if were == are { Ok(()) } else { Err(format!("{were} became {are}")) },
        );
    }
}

/// An error that shows the end of the machine's console, with what the cluster knows.
fn failed(machine: &Node, message: String, why: String) -> Error {
    machine.failure(message).map_or_else(|error| error, |error| error.cause(why))
}

/// The text at a place of an object (RFC 6901); nothing where there is none.
fn text<'o>(object: &'o Value, place: &str) -> &'o str {
    object.pointer(place).and_then(Value::as_str).unwrap_or_default()
}
