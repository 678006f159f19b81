//! Nodes of ours make themselves the control plane of a cluster, as a person at a desk has them do.

mod desk;
mod setting;
mod several;
mod snapshot;
mod upgrade;

pub use setting::a_resource_configures_the_control_plane;
pub use several::{
    a_control_plane_outlasts_the_loss_of_a_node, several_nodes_are_one_control_plane,
};
pub use upgrade::a_control_plane_is_upgraded_to_the_next_minor;

use super::kubectl::Kubectl;
use super::wait::{Seen, wait};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::probe::free_port;
use crate::vm::run_command::RunCommand;
use desk::{Desk, KUBECONFIG_LINE};
use osbuild::error::Result;
use std::collections::BTreeSet;
use std::time::Duration;

/// The name of the control plane's node.
const NODE: &str = "plane-1";

/// The recipe of a further node, and its name. It has a network for its pods.
const WORKER_RECIPE: &str = "single-amd64";
const WORKER: &str = "worker-1";

/// The network of both.
const NETWORK: &str = "ci-own-cluster";

/// How long the emulated node may take to pull the images and start an API server. A desk with KVM
/// takes a minute or two.
const NEW_NODE_TIMEOUT: Duration = Duration::from_secs(1800);
/// How long an object may take to become ready afterwards.
const STEP_TIMEOUT: Duration = Duration::from_secs(600);

/// The static pods of kubeadm, without the node's name.
const STATIC_PODS: [&str; 4] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// `osbuild run control-plane-amd64` prints the path of a kubeconfig. With it, `kubectl` finds the
/// node Ready and kubeadm's pods and addons running, and runs a Deployment behind a Service. The
/// node is given nothing but the address of a registry. A second node on its network joins with the
/// files that the first run made. After a power cut of the first node all of it is there again, and
/// it is the same cluster. Then it returns to a snapshot of etcd.
pub fn a_node_makes_its_own_control_plane(site: &Site) -> Result<Outcome> {
    let desk = Desk::new(site, NETWORK)?;
    let mut outcome = Outcome::default();
    let files = desk.pulls("first")?;
    let forward = format!("{}:6443", free_port()?);
    let flags = ["--keep", "--name", NODE, "--files", &files, "--forward", &forward];

    let mut node = desk.run_plane("control-plane-first", &flags)?;
    let kubeconfig = node.wait_at_most(NEW_NODE_TIMEOUT, KUBECONFIG_LINE)?;
    outcome.passed += 1;
    let kubectl = Kubectl::with(site, kubeconfig.into(), desk.path("kubectl"))?;
    let cluster = OwnCluster { kubectl };
    cluster.has_what_kubeadm_makes(&mut outcome)?;
    cluster.runs_a_deployment(&mut outcome)?;
    let _worker = run_worker(&desk)?;
    cluster.has_its_worker(&mut outcome)?;
    let (before, containers) = (cluster.identity()?, cluster.containers()?);
    drop(node);

    let mut node = desk.run_plane("control-plane-again", &flags)?;
    node.wait_at_most(NEW_NODE_TIMEOUT, KUBECONFIG_LINE)?;
    let lease = cluster.lease()?;
    cluster.has_what_kubeadm_makes(&mut outcome)?;
    cluster.has_other_containers(&containers, &mut outcome)?;
    cluster.has_its_worker(&mut outcome)?;
    cluster.renews(&lease, &mut outcome)?;
    cluster.rolls_out_again(&mut outcome)?;
    let after = cluster.identity()?;
    outcome.check("it is the same cluster after a power cut", before == after, || {
        format!("{before} became {after}")
    });
    snapshot::is_restored(&cluster, &desk.address(NODE)?, &mut outcome)?;
    cluster.answers(&mut outcome)?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// Runs the second node with the files of the cluster for further nodes.
fn run_worker(desk: &Desk) -> Result<RunCommand> {
    let files = desk.pulls_and(&desk.cluster(), "others")?;
    let flags = ["--name", WORKER, "--disk-size", "4096", "--files", &files];
    desk.run_worker("control-plane-worker", WORKER_RECIPE, &flags)
}

/// The cluster, as its administrator sees it.
struct OwnCluster<'a> {
    kubectl: Kubectl<'a>,
}

impl OwnCluster<'_> {
    /// The claim that the output of a command has this text within [`STEP_TIMEOUT`].
    fn claim(
        &self,
        outcome: &mut Outcome,
        claim: &str,
        words: &[&str],
        expected: &str,
    ) -> Result<()> {
        self.kubectl.claim(outcome, STEP_TIMEOUT, claim, words, expected)
    }

    /// The node, the static pods and the addons.
    fn has_what_kubeadm_makes(&self, outcome: &mut Outcome) -> Result<()> {
        let role = "-l=node-role.kubernetes.io/control-plane";
        let words = ["wait", "node", role, "--for=condition=Ready", "--timeout=300s"];
        self.claim(outcome, "the node has its role and is Ready", &words, NODE)?;
        self.has_static_pods(outcome, NODE)?;
        for addon in ["daemonset/kube-proxy", "deployment/coredns"] {
            let words = ["-n=kube-system", "rollout", "status", addon, "--timeout=300s"];
            self.claim(outcome, "an addon runs", &words, "successfully rolled out")?;
        }
        Ok(())
    }

    /// kubeadm's pods on a node.
    fn has_static_pods(&self, outcome: &mut Outcome, node: &str) -> Result<()> {
        for pod in STATIC_PODS {
            let pod = format!("pod/{pod}-{node}");
            let words = ["-n=kube-system", "wait", &pod, "--for=condition=Ready", "--timeout=300s"];
            self.claim(outcome, "a pod of the control plane is Ready", &words, "condition met")?;
        }
        Ok(())
    }

    /// One of several nodes of the control plane.
    fn has_plane(&self, outcome: &mut Outcome, node: &str) -> Result<()> {
        let object = format!("node/{node}");
        let words = ["wait", &object, "--for=condition=Ready", "--timeout=300s"];
        self.claim(outcome, "a node of the control plane is Ready", &words, "condition met")?;
        let words = ["get", &object, "-o=jsonpath={.metadata.labels}"];
        let role = "node-role.kubernetes.io/control-plane";
        self.claim(outcome, "a node of the control plane has its role", &words, role)?;
        self.has_static_pods(outcome, node)
    }

    /// The second node, and kube-proxy on it.
    fn has_its_worker(&self, outcome: &mut Outcome) -> Result<()> {
        let words = ["wait", "node", WORKER, "--for=condition=Ready", "--timeout=300s"];
        self.claim(outcome, "a second node is Ready", &words, WORKER)?;
        let on_worker = format!("--field-selector=spec.nodeName={WORKER}");
        let mut words = vec!["-n=kube-system", "wait", "pod", "-l=k8s-app=kube-proxy", &on_worker];
        words.extend(["--for=condition=Ready", "--timeout=300s"]);
        self.claim(outcome, "kube-proxy runs on the second node", &words, "condition met")
    }

    /// The identifiers of the containers of the control plane.
    fn containers(&self) -> Result<BTreeSet<String>> {
        let ids = "-o=jsonpath={.items[*].status.containerStatuses[*].containerID}";
        let pods = ["-n=kube-system", "get", "pods", "-l=tier=control-plane", ids];
        Ok(self.kubectl.output(&pods)?.split_whitespace().map(str::to_owned).collect())
    }

    /// Each part of the control plane has another container than `before`. What the API server has
    /// from before the restart says that the pods are Ready.
    fn has_other_containers(&self, before: &BTreeSet<String>, outcome: &mut Outcome) -> Result<()> {
        let seen = wait(STEP_TIMEOUT, || {
            let now = self.containers()?;
            let is_other = now.len() == STATIC_PODS.len() && now.is_disjoint(before);
            Ok(if is_other { Seen::Yes(()) } else { Seen::NotYet(format!("{before:?}, {now:?}")) })
        })?;
        outcome.claim("the pods of the control plane are not those of before", seen);
        Ok(())
    }

    /// The time at which the second node has renewed its lease.
    fn lease(&self) -> Result<String> {
        let time = "-o=jsonpath={.spec.renewTime}";
        self.kubectl.output(&["-n=kube-node-lease", "get", "lease", WORKER, time])
    }

    /// The second node renews its lease after `last`: it reaches the API server.
    fn renews(&self, last: &str, outcome: &mut Outcome) -> Result<()> {
        let seen = wait(STEP_TIMEOUT, || {
            let now = self.lease()?;
            Ok(if now == last { Seen::NotYet(now) } else { Seen::Yes(()) })
        })?;
        outcome.claim("the second node renews its lease", seen);
        Ok(())
    }

    /// New pods in place of those of before, and traffic to them.
    fn rolls_out_again(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.output(&["rollout", "restart", "deployment/web"])?;
        self.rolls_out(outcome)?;
        self.answers(outcome)
    }

    /// A Deployment, a Service, and a client that finds it by its name.
    fn runs_a_deployment(&self, outcome: &mut Outcome) -> Result<()> {
        self.rolls_out(outcome)?;
        self.answers(outcome)
    }

    /// The same without traffic: pods of several nodes reach each other only with a network plugin
    /// of the cluster.
    fn rolls_out(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.apply(OBJECTS)?;
        let words = ["rollout", "status", "deployment/web", "--timeout=300s"];
        self.claim(outcome, "a Deployment rolls out", &words, "successfully rolled out")
    }

    fn answers(&self, outcome: &mut Outcome) -> Result<()> {
        let words =
            ["exec", "deploy/client", "--", "/agnhost", "connect", "web:80", "--timeout=10s"];
        self.claim(outcome, "a pod reaches a Service by its name", &words, "")
    }

    /// The UIDs of the node and of the namespace `kube-system`, which identify the node and the
    /// cluster.
    fn identity(&self) -> Result<String> {
        let words = [
            "get",
            "node/plane-1",
            "namespace/kube-system",
            "-o=jsonpath={.items[*].metadata.uid}",
        ];
        self.kubectl.output(&words)
    }
}

/// A server, a Service in front of it, and a client.
const OBJECTS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers:
        - name: web
          image: registry.k8s.io/e2e-test-images/agnhost:2.59
          args: [netexec, --http-port=8080]
          readinessProbe: { httpGet: { port: 8080 } }
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  selector: { app: web }
  ports: [{ port: 80, targetPort: 8080 }]
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: client }
spec:
  selector: { matchLabels: { app: client } }
  template:
    metadata: { labels: { app: client } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: client
          image: registry.k8s.io/e2e-test-images/agnhost:2.59
          args: [pause]
"#;
