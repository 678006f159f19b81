//! A node joins a cluster of unmodified software, runs its pods, and is the same node after a power
//! cut.

mod addons;
mod addressing;
pub mod api;
mod apparmor;
pub mod certificates;
mod conformance;
pub mod control_plane;
mod drained;
mod dual_stack;
mod egress;
mod faults;
mod flannel;
mod held_label;
mod images;
pub mod joining;
mod kept_image;
pub mod kubectl;
mod lab;
mod large_image;
mod lost;
mod many_pods;
mod metrics;
mod minor;
mod modules;
mod network_policies;
mod newer;
mod node_api;
mod own_control_plane;
mod pods_as_clients;
mod pods_swap;
mod process;
pub mod registry;
mod rejoining;
mod reserved;
pub mod serving;
mod set_join;
mod shown_setting;
mod shutdown;
mod storage;
mod two_nodes;
pub mod wait;
mod workloads;
mod wrong_clock;

use super::node::NodeUnderTest;
use crate::check::Outcome;
use crate::site::Site;
use addons::ProxyMode;
use api::condition;
pub use apparmor::pods_have_the_profiles_that_they_ask_for;
pub use conformance::a_node_passes_the_tests_of_kubernetes;
use control_plane::ControlPlane;
pub use drained::a_node_is_drained_before_it_reboots_for_an_update;
pub use dual_stack::a_node_joins_by_ipv6_and_has_both_protocols_later;
pub use faults::{
    a_node_boots_without_its_cluster, a_node_survives_a_full_disk,
    a_node_survives_without_its_name_server, pods_survive_an_hour_without_the_cluster,
    pods_survive_faults,
};
use joining::{LABEL, TAINT, join};
use kubectl::Kubectl;
use lab::{Lab, POD_PREFIX, PODS};
pub use lost::a_release_that_loses_the_cluster_goes_back;
pub use many_pods::a_node_runs_as_many_pods_as_the_kubelet_allows;
pub use minor::builds_the_newer_minors;
pub use newer::a_node_joins_the_two_minors_after_its_own;
use osbuild::error::{Error, Result};
pub use own_control_plane::{
    a_control_plane_is_upgraded_to_the_next_minor, a_control_plane_outlasts_the_loss_of_a_node,
    a_node_makes_its_own_control_plane, a_resource_configures_the_control_plane,
    several_nodes_are_one_control_plane,
};
pub use pods_as_clients::pods_are_clients_of_their_node;
use registry::Registry;
pub use rejoining::a_node_comes_back_with_a_fresh_token_or_ca;
pub use reserved::a_pod_has_what_is_reserved_for_it;
use serde_json::Value;
pub use shutdown::pods_end_in_order_before_the_node_does;
use std::collections::BTreeSet;
use std::time::Duration;
pub use storage::a_storage_driver_mounts_the_volumes_of_pods;
pub use two_nodes::pods_of_two_nodes_reach_each_other;
use wait::{Seen, wait};
pub use workloads::a_stock_deployment_works_and_survives_a_reboot;
use workloads::{DEPLOYMENT, client::Client};
pub use wrong_clock::a_node_joins_as_soon_as_it_knows_the_time;

/// How long the cluster and the emulated node may take for each step.
const TIMEOUT: Duration = Duration::from_secs(480);

/// The host name that DHCP gives at the second boot.
const NAME_BY_DHCP: &str = "edge-7";

/// The condition of the node's object about its host, and its message about the clock.
const HOST_PROBLEM: &str = "HostProblem";
const NO_TIME: &str = "no time server confirms the clock: ";

/// The pods of the namespace `default` ([`DEPLOYMENT`]): two of the Deployment, and their client.
const FIRST_PODS: usize = 3;

/// A node joins with a bootstrap token and becomes Ready. kubeadm deploys kube-proxy and CoreDNS to
/// it, as pods whose images come from a registry, and a Deployment behind a Service, which a pod
/// reaches by its name and address, and a client of the node by the node's port. Then the power
/// fails. At the next boot DHCP gives a host name; it is still the same node, Ready, and the only
/// one, with the same pods, which reach each other again.
pub fn a_node_joins_runs_pods_and_is_the_same_after_a_reboot(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "cluster")?;
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start_with_first_images(site, cluster.plane.authority())?;
    cluster.plane.egress().route(serving::ADDRESS, lab.kubelet);
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    let client = Client { kubectl: &kubectl, node_port: lab.node_port };
    let mut node = lab.machine("cluster-joins")?.boot()?;
    join(&cluster.plane, registry.node_files(cluster.plane.authority())?, &lab.ports)?;
    let first = cluster.ready_node(&mut node, None)?;
    cluster.kubelet_never_failed(&mut node)?;
    cluster.is_as_its_document_says(&first);
    addons::deploy(site, &cluster.plane, ProxyMode::Nftables, PODS)?;
    kubectl.apply(DEPLOYMENT)?;
    serving::the_cluster_signs_it(&kubectl, text(&first, "/metadata/name"), &mut cluster.outcome)?;
    // The node pulls images meanwhile.
    cluster.sees_the_problem_of_the_host(&mut node)?;
    client.rolls_out(&mut cluster.outcome)?;
    let before = cluster.pods_run(&mut node, &[])?;
    client.reaches_the_service(&mut cluster.outcome, "")?;
    cluster.has_one_event_of_the_host()?;
    drop(node);

    let mut node = lab.machine("cluster-reboots")?.hostname(NAME_BY_DHCP).boot()?;
    let second = cluster.ready_node(&mut node, Some(&first))?;
    let after = cluster.pods_run(&mut node, &before)?;
    cluster.is_the_same(&first, &second)?;
    cluster.has_the_same_pods(&before, &after);
    client.reaches_the_service(&mut cluster.outcome, " after a power cut")?;
    cluster.outcome.summary =
        format!("{}, {} claims", text(&second, "/metadata/name"), cluster.outcome.passed);
    Ok(cluster.outcome)
}

struct Cluster {
    plane: ControlPlane,
    outcome: Outcome,
}

impl Cluster {
    /// Waits for a Ready node with another boot than `before`.
    fn ready_node(&mut self, machine: &mut NodeUnderTest, before: Option<&Value>) -> Result<Value> {
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
        let when = if before.is_some() { "after its reboot" } else { "after it joined" };
        let node = seen.map_err(|why| failed(machine, format!("no node is Ready {when}"), why))?;
        self.outcome.passed += 1;
        Ok(node)
    }

    /// The kubelet ran without a cluster until it joined: the cluster's drop-in did not end it.
    fn kubelet_never_failed(&mut self, machine: &mut NodeUnderTest) -> Result<()> {
        let console = machine.console()?;
        let ended = console.lines().find(|line| line.contains("kubelet: ended with exit code"));
        let holds = ended.map_or(Ok(()), |line| Err(line.to_owned()));
        self.outcome.claim("settings for a cluster do not end a kubelet without a name", holds);
        Ok(())
    }

    /// The node has the label and the taint of its document.
    fn is_as_its_document_says(&mut self, node: &Value) {
        let label = &node["metadata"]["labels"][LABEL.0];
        self.outcome
            .check("it has the label of its document", *label == LABEL.1, || label.to_string());
        let label = &node["metadata"]["labels"][lab::LABEL.0];
        self.outcome
            .check("it has the label of its recipe", *label == lab::LABEL.1, || label.to_string());
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let written = |taint: &Value| {
            let part = |key: &str| taint[key].as_str().unwrap_or_default().to_owned();
            format!("{}={}:{}", part("key"), part("value"), part("effect"))
        };
        let written: Vec<String> = taints.iter().map(written).collect();
        let has_taint = written.iter().any(|taint| taint == TAINT);
        self.outcome.check("it has the taint of its document", has_taint, || written.join(", "));
    }

    /// No time server answers the node: the cluster shows that with its object, and in an event.
    fn sees_the_problem_of_the_host(&mut self, machine: &mut NodeUnderTest) -> Result<()> {
        let seen = wait(TIMEOUT, || {
            machine.is_running()?;
            let nodes = self.plane.api().list("/api/v1/nodes")?;
            let found = nodes.first().and_then(|node| condition(node, HOST_PROBLEM));
            let text = format!("{HOST_PROBLEM} is {found:?}");
            let is_so = found
                .is_some_and(|(status, message)| status == "True" && message.starts_with(NO_TIME));
            Ok(if is_so { Seen::Yes(()) } else { Seen::NotYet(text) })
        })?;
        self.outcome.claim("the cluster shows what is wrong with the host", seen);
        let seen = wait(TIMEOUT, || {
            let count = self.events_of_the_host()?;
            let found = format!("{count} events are about it");
            Ok(if count > 0 { Seen::Yes(()) } else { Seen::NotYet(found) })
        })?;
        self.outcome.claim("an event says when that began", seen);
        Ok(())
    }

    /// The problem has lasted for minutes, in which the node has written its condition again.
    fn has_one_event_of_the_host(&mut self) -> Result<()> {
        let count = self.events_of_the_host()?;
        let why = || format!("{count} events are about it");
        self.outcome.check("no further event says so while that lasts", count == 1, why);
        Ok(())
    }

    /// How many events say that no time server answers the node.
    fn events_of_the_host(&self) -> Result<usize> {
        let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.kind=Node,\
                    reason=Time";
        let events = self.plane.api().list(path)?;
        let is_one = |event: &&Value| text(event, "/message").starts_with(NO_TIME);
        Ok(events.iter().filter(is_one).count())
    }

    /// Why none of the nodes is Ready.
    fn unready(&self, nodes: &[Value]) -> String {
        let state = |node: &Value| {
            let (status, message) =
                condition(node, "Ready").unwrap_or(("Unknown", "it has no condition yet"));
            format!("`{}`: Ready is {status}: {message}", text(node, "/metadata/name"))
        };
        match nodes.iter().map(state).collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => "the cluster has no node".to_owned(),
            states => states,
        }
    }

    /// Waits until the first pods are Ready with other containers than `before`, and returns them.
    fn pods_run(&mut self, machine: &mut NodeUnderTest, before: &[Value]) -> Result<Vec<Value>> {
        let container = "/status/containerStatuses/0/containerID";
        let ended: BTreeSet<&str> = before.iter().map(|pod| text(pod, container)).collect();
        let seen = wait(TIMEOUT, || {
            self.plane.is_running()?;
            machine.is_running()?;
            let pods = self.plane.api().list("/api/v1/namespaces/default/pods")?;
            let is_ready =
                |pod: &Value| condition(pod, "Ready").is_some_and(|(status, _)| status == "True");
            let runs = |pod: &Value| is_ready(pod) && !ended.contains(text(pod, container));
            Ok(match pods.len() == FIRST_PODS && pods.iter().all(runs) {
                true => Seen::Yes(pods),
                false => Seen::NotYet(self.idle(&pods)?),
            })
        })?;
        let pods =
            seen.map_err(|why| failed(machine, "the first pods are not Ready".to_owned(), why))?;
        let addresses: BTreeSet<&str> = pods.iter().map(|pod| text(pod, "/status/podIP")).collect();
        let own = addresses.len() == FIRST_PODS
            && addresses.iter().all(|address| address.starts_with(POD_PREFIX));
        self.outcome.check("each pod has its own address", own, || format!("{addresses:?}"));
        Ok(pods)
    }

    /// Why the pods do not run, from the cluster's events.
    fn idle(&self, pods: &[Value]) -> Result<String> {
        let events =
            "/api/v1/namespaces/default/events?fieldSelector=type=Warning,involvedObject.kind=Pod";
        let events = self.plane.api().list(events)?;
        // Each attempt has its own event, with the same message.
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
            self.outcome.check(claim, was == is, || format!("it was `{was}` and is `{is}`"));
        }
        let nodes = self.plane.api().list("/api/v1/nodes")?;
        let names: Vec<&str> = nodes.iter().map(|node| text(node, "/metadata/name")).collect();
        self.outcome.check("it is the only node", names.len() == 1, || names.join(", "));
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
        self.outcome.check("its pods are the same", were == are, || format!("{were} became {are}"));
    }
}

/// An error with the cluster's reason, which shows the end of the machine's console.
fn failed(machine: &NodeUnderTest, message: String, why: String) -> Error {
    machine.failure(message).cause(why)
}

/// The text at a JSON pointer (RFC 6901) in an object; empty where there is none.
fn text<'o>(object: &'o Value, place: &str) -> &'o str {
    object.pointer(place).and_then(Value::as_str).unwrap_or_default()
}
