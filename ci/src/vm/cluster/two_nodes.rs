//! Two nodes of a cluster whose pods talk, through flannel.

use super::addons::{self, DOMAIN, ProxyMode};
use super::addressing::Addressing;
use super::api::condition;
use super::control_plane::ControlPlane;
use super::kubectl::Kubectl;
use super::lab::{DISK_MIB, SINGLE};
use super::registry::Registry;
use super::wait::{Seen, wait};
use super::workloads::client::get_script;
use super::{flannel, joining, network_policies, serving, text};
use crate::check::Outcome;
use crate::recipe;
use crate::site::Site;
use crate::vm::kept_disk::KeptDisk;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::free_port;
use osbuild::error::{Context, Error, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// The recipe of the nodes: it has the CNI plugins that flannel executes, and no network of its
/// own, which containerd would use instead of flannel's.
const RECIPE: &str = "two-nodes";
const NO_NETWORK: &str = "
[files]
\"/usr/share/osbuild/cni/10-bridge.conflist\" = false
";

/// The network of the nodes, their names, and the one that keeps its disk.
const NETWORK: &str = "ci-two-nodes";
const NAMES: [&str; 2] = ["pods-1", "pods-2"];
const KEEPS: usize = 1;

/// A pod on each node, and a Service.
const OBJECTS: &str = include_str!("two_nodes.yaml");

/// The port of the pods and of the Service.
const PORT: u16 = 8080;
const SERVICE_PORT: u16 = 80;

/// A request whose answer is larger than a packet, and the end of the answer.
const MUCH: &str = "/shell?shellCommand=seq+20000";
const MUCH_ENDS: &str = "19999\\n20000\\n";

/// The rollouts that must be complete, in this order: claim, namespace and workload.
const ROLLOUTS: [(&str, &str, &str); 4] = [
    ("kube-proxy runs on both nodes", "kube-system", "daemonset/kube-proxy"),
    ("flannel runs on both nodes", "kube-flannel", "daemonset/kube-flannel-ds"),
    ("CoreDNS runs", "kube-system", "deployment/coredns"),
    ("a pod runs on both nodes", "default", "daemonset/web"),
];

/// The end of the names of claims after the power of a node failed.
const AGAIN: &str = " after a power cut";

/// How long two emulated nodes may take to pull images and start pods, and until a claim holds.
const ROLLOUT: &str = "--timeout=900s";
const TIMEOUT: Duration = Duration::from_secs(300);

/// Two nodes without a network for pods join a cluster, which gives them one: flannel, with
/// upstream's manifest. Pods of one node reach those of the other, by their own addresses and
/// through a Service, and NetworkPolicies keep some of them apart. Then the power of one node
/// fails, and once it is back the pods talk again, as far as the policies let them.
pub fn pods_of_two_nodes_reach_each_other(site: &Site) -> Result<Outcome> {
    let plane = ControlPlane::start(site)?;
    let registry = Registry::start(site, plane.authority())?;
    let kubectl = Kubectl::new(site, &plane)?;
    let nodes = Nodes::new(site, &plane, &registry)?;
    let mut first = nodes.boot(0, "two-nodes-first")?;
    let mut second = nodes.boot(KEEPS, "two-nodes-second")?;
    let mut pair = Pair { plane, kubectl, outcome: Outcome::default() };
    pair.waits_for_a_network()?;
    addons::deploy(site, &pair.plane, ProxyMode::Nftables, Addressing::IPV4.pods)?;
    flannel::deploy(site, &pair.kubectl)?;
    pair.kubectl.apply(OBJECTS)?;
    pair.rolls_out([&mut first, &mut second])?;
    pair.lets_kubectl_in(&nodes)?;
    pair.talks("")?;
    let pods = pair.addresses()?;
    network_policies::start_askers(&pair.kubectl, &pods, &mut pair.outcome)?;
    network_policies::deploy(site, &pair.kubectl, &mut pair.outcome)?;
    network_policies::hold(&pair.kubectl, &pods, &mut pair.outcome, "")?;
    drop(second);

    let mut second = nodes.machine(KEEPS, "two-nodes-again")?.boot()?;
    second.wait_until_printed(&format!("node `{}` is Ready in its cluster", NAMES[KEEPS]))?;
    pair.rolls_out([&mut first, &mut second])?;
    pair.talks(AGAIN)?;
    let pods = pair.addresses()?;
    network_policies::runs(&pair.kubectl, &mut pair.outcome, AGAIN)?;
    network_policies::hold(&pair.kubectl, &pods, &mut pair.outcome, AGAIN)?;
    network_policies::remove(&pair.kubectl, &pods, &mut pair.outcome)?;
    pair.outcome.summary = format!("{} claims", pair.outcome.passed);
    Ok(pair.outcome)
}

/// The machines.
struct Nodes<'a> {
    site: &'a Site<'a>,
    project: PathBuf,
    /// The files with which a node joins.
    files: TempDir,
    disk: KeptDisk,
    /// The ports of the loopback that lead to the kubelets.
    kubelets: [u16; 2],
}

impl<'a> Nodes<'a> {
    fn new(site: &'a Site<'a>, plane: &ControlPlane, registry: &Registry) -> Result<Self> {
        let project = site.root.join("out/ci").join(RECIPE);
        site.copy_to(&project)?;
        recipe::inherit(site, &project, RECIPE, SINGLE, NO_NETWORK)?;
        let files = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        for file in registry.node_files(plane.authority())? {
            file.write_below(files.path())?;
        }
        joining::document(plane)?.write_below(files.path())?;
        let disk = KeptDisk::in_project(&project, RECIPE)?;
        Ok(Nodes { site, project, files, disk, kubelets: [free_port()?, free_port()?] })
    }

    /// Boots a node for the first time, with the files.
    fn boot(&self, node: usize, log: &str) -> Result<NodeUnderTest<'a>> {
        self.machine(node, log)?.files(self.files.path())?.boot()
    }

    /// A machine. Its console is written to the log `log`.
    fn machine(&self, node: usize, log: &str) -> Result<Machine<'a>> {
        let machine = Machine::of_recipe_in(self.site, &self.project, RECIPE, log)?
            .on_network(NETWORK, NAMES[node])
            .disk_size(DISK_MIB)
            .forward(self.kubelets[node], serving::PORT);
        Ok(if node == KEEPS { machine.keep(self.disk.path()) } else { machine })
    }
}

/// The cluster, as its administrator sees it.
struct Pair<'a> {
    plane: ControlPlane,
    kubectl: Kubectl<'a>,
    outcome: Outcome,
}

/// A pod of the DaemonSet.
struct Pod {
    name: String,
    address: String,
}

impl Pair<'_> {
    /// Both nodes have joined, and are not Ready because no network for pods is there.
    fn waits_for_a_network(&mut self) -> Result<()> {
        let holds = wait(TIMEOUT, || {
            self.plane.is_running()?;
            let nodes = self.plane.api().list("/api/v1/nodes")?;
            let state =
                |node: &Value| condition(node, "Ready").map_or("", |(_, why)| why).to_owned();
            let states: Vec<String> = nodes.iter().map(state).collect();
            let waits = |why: &String| why.contains("cni plugin not initialized");
            Ok(match states.len() == NAMES.len() && states.iter().all(waits) {
                true => Seen::Yes(()),
                false => Seen::NotYet(states.join("; ")),
            })
        })?;
        self.outcome.claim("a node without a network for pods is not Ready, and says why", holds);
        Ok(())
    }

    /// All of [`ROLLOUTS`] run.
    fn rolls_out(&mut self, mut nodes: [&mut NodeUnderTest; 2]) -> Result<()> {
        for (claim, namespace, object) in ROLLOUTS {
            let words = ["rollout", "status", "--namespace", namespace, object, ROLLOUT];
            let ran = self.kubectl.run(&words)?;
            nodes.iter_mut().try_for_each(|node| node.is_running())?;
            if ran.code != Some(0) {
                let words = ["get", "pods,events", "--all-namespaces", "-o", "wide"];
                let events = self.kubectl.run(&words)?.output;
                return Err(ran.failure(&format!("does not hold: {claim}")).cause(events));
            }
            self.outcome.passed += 1;
        }
        Ok(())
    }

    /// `kubectl exec` reaches the pods: the API server finds the kubelets at the addresses of their
    /// nodes, and they have certificates.
    fn lets_kubectl_in(&mut self, nodes: &Nodes) -> Result<()> {
        for (name, port) in NAMES.iter().zip(nodes.kubelets) {
            let path = "-o=jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}";
            let address = self.kubectl.output(&["get", "node", name, path])?;
            self.plane.egress().route(&format!("{address}:{}", serving::PORT), port);
            let approved = serving::approved(&self.kubectl, name)?;
            self.outcome.claim("`kubectl logs` works on both nodes", approved);
        }
        Ok(())
    }

    /// The claims about the pods; `when` follows their names.
    fn talks(&mut self, when: &str) -> Result<()> {
        for (from, to) in [(0, 1), (1, 0)] {
            let direction = format!(", from `{}`{when}", NAMES[from]);
            let mut claim = |name: &str, ask: &dyn Fn(&Pod, &Pod) -> (String, String)| {
                let holds = wait(TIMEOUT, || self.answers(from, to, ask))?;
                self.outcome.claim(&format!("{name}{direction}"), holds);
                Ok::<_, Error>(())
            };
            claim("a pod reaches one on another node", &|_, to| {
                (get_script(&to.address, PORT, "/hostname"), to.name.clone())
            })?;
            claim("a pod is seen by its own address on another node", &|from, to| {
                (get_script(&to.address, PORT, "/clientip"), format!("{}:", from.address))
            })?;
            claim("large answers arrive from another node", &|_, to| {
                (get_script(&to.address, PORT, MUCH), MUCH_ENDS.to_owned())
            })?;
            claim("a Service leads to the pod on another node", &|_, to| {
                let host = format!("web.default.svc.{DOMAIN}");
                (get_script(&host, SERVICE_PORT, "/hostname"), to.name.clone())
            })?;
        }
        Ok(())
    }

    /// Whether the pod of the node `from` gets the answer of `ask` when it runs the script of
    /// `ask`. Pods that come back have other addresses, so each attempt looks for them.
    fn answers(
        &self,
        from: usize,
        to: usize,
        ask: &dyn Fn(&Pod, &Pod) -> (String, String),
    ) -> Result<Seen<()>> {
        let (Some(from), Some(to)) = (self.pod(from)?, self.pod(to)?) else {
            return Ok(Seen::NotYet("a node has no pod".to_owned()));
        };
        let (script, answer) = ask(&from, &to);
        let words = ["exec", &from.name, "--", "timeout", "20", "bash", "-c", &script];
        let ran = self.kubectl.run(&words)?;
        Ok(match ran.output.contains(&answer) {
            true => Seen::Yes(()),
            false => Seen::NotYet(format!("{script}: {}", ran.output)),
        })
    }

    /// The addresses and ports of the pods, one on each node.
    fn addresses(&self) -> Result<[String; 2]> {
        let address = |node| {
            let pod = self.pod(node)?;
            let missing = || Error::build(format!("`{}` has no pod", NAMES[node]));
            Ok::<_, Error>(format!("{}:{PORT}", pod.ok_or_else(missing)?.address))
        };
        Ok([address(0)?, address(1)?])
    }

    /// The pod of a node.
    fn pod(&self, node: usize) -> Result<Option<Pod>> {
        let pods = "/api/v1/namespaces/default/pods?labelSelector=app=web";
        let pods = self.plane.api().list(pods)?;
        let found = pods.iter().find(|pod| text(pod, "/spec/nodeName") == NAMES[node]);
        Ok(found.map(|pod| Pod {
            name: text(pod, "/metadata/name").to_owned(),
            address: text(pod, "/status/podIP").to_owned(),
        }))
    }
}
