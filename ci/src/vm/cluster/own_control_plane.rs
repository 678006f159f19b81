//! A node of ours makes itself the control plane of a cluster, as `osbuild run` does it at a desk.

use super::certificates::Authority;
use super::kubectl::Kubectl;
use super::registry::Registry;
use crate::check::Outcome;
use crate::image::builds_the_lab;
use crate::site::Site;
use crate::vm::probe::free_port;
use crate::vm::run_command::RunCommand;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The recipe, and the name of its node.
const RECIPE: &str = "control-plane-amd64";
const NODE: &str = "plane-1";

/// How long the emulated node may take to pull the images and start an API server. A desk with KVM
/// takes a minute or two.
const TIMEOUT: Duration = Duration::from_secs(1800);
/// How long an object may take to become ready afterwards.
const STEP_TIMEOUT: Duration = Duration::from_secs(600);

/// The static pods of kubeadm, without the node's name.
const STATIC_PODS: [&str; 4] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// `osbuild run control-plane-amd64` prints the path of a kubeconfig. With it, `kubectl` finds the
/// node Ready and kubeadm's pods and addons running, and runs a Deployment behind a Service. The
/// node is given nothing but the address of a registry. After a power cut all of it is there again,
/// and it is the same cluster.
pub fn a_node_makes_its_own_control_plane(site: &Site) -> Result<Outcome> {
    builds_the_lab(site)?;
    let place = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let authority = Authority::new(place.path())?;
    let registry = Registry::start(site, &authority)?;
    let files = place.path().join("files");
    for file in registry.node_files(&authority)? {
        file.write_below(&files)?;
    }
    forget(&site.project().join("out").join(RECIPE))?;
    let mut outcome = Outcome::default();
    let port = free_port()?;
    let forward = format!("{port}:6443");
    let files = files.display().to_string();
    let flags = ["--keep", "--name", NODE, "--files", &files, "--forward", &forward];

    let mut node = RunCommand::start(site, "control-plane-first", RECIPE, &flags)?;
    let kubeconfig = node.wait_at_most(TIMEOUT, KUBECONFIG_LINE)?;
    outcome.passed += 1;
    let kubectl = Kubectl::with(site, kubeconfig.into(), place.path().join("kubectl"))?;
    let cluster = OwnCluster { kubectl };
    cluster.has_what_kubeadm_makes(&mut outcome)?;
    cluster.runs_a_deployment(&mut outcome)?;
    let before = cluster.identity()?;
    drop(node);

    let mut node = RunCommand::start(site, "control-plane-again", RECIPE, &flags)?;
    node.wait_at_most(TIMEOUT, KUBECONFIG_LINE)?;
    cluster.has_what_kubeadm_makes(&mut outcome)?;
    cluster.answers(&mut outcome)?;
    let after = cluster.identity()?;
    outcome.check("it is the same cluster after a power cut", before == after, || {
        format!("{before} became {after}")
    });
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// How the line with the path of the kubeconfig begins.
const KUBECONFIG_LINE: &str = "/";

/// Removes the node's disk and the cluster of an earlier run.
fn forget(out: &Path) -> Result<()> {
    for name in ["cluster", "disk-plane-1.raw", "disk-plane-1.variables"] {
        let path = out.join(name);
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).or_build(|| format!("cannot remove `{}`", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The cluster, as its administrator sees it.
struct OwnCluster<'a> {
    kubectl: Kubectl<'a>,
}

impl OwnCluster<'_> {
    /// The node, the static pods and the addons.
    fn has_what_kubeadm_makes(&self, outcome: &mut Outcome) -> Result<()> {
        let role = "-l=node-role.kubernetes.io/control-plane";
        let words = ["wait", "node", role, "--for=condition=Ready", "--timeout=300s"];
        self.kubectl.claim(
            outcome,
            STEP_TIMEOUT,
            "the node has its role and is Ready",
            &words,
            NODE,
        )?;
        for pod in STATIC_PODS {
            let pod = format!("pod/{pod}-{NODE}");
            let words = ["-n=kube-system", "wait", &pod, "--for=condition=Ready", "--timeout=300s"];
            self.kubectl.claim(
                outcome,
                STEP_TIMEOUT,
                "a pod of the control plane is Ready",
                &words,
                "condition met",
            )?;
        }
        for addon in ["daemonset/kube-proxy", "deployment/coredns"] {
            let words = ["-n=kube-system", "rollout", "status", addon, "--timeout=300s"];
            self.kubectl.claim(
                outcome,
                STEP_TIMEOUT,
                "an addon runs",
                &words,
                "successfully rolled out",
            )?;
        }
        Ok(())
    }

    /// A Deployment, a Service, and a client that finds it by its name.
    fn runs_a_deployment(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.apply(OBJECTS)?;
        let words = ["rollout", "status", "deployment/web", "--timeout=300s"];
        self.kubectl.claim(
            outcome,
            STEP_TIMEOUT,
            "a Deployment rolls out",
            &words,
            "successfully rolled out",
        )?;
        self.answers(outcome)
    }

    fn answers(&self, outcome: &mut Outcome) -> Result<()> {
        let words =
            ["exec", "deploy/client", "--", "/agnhost", "connect", "web:80", "--timeout=10s"];
        self.kubectl.claim(outcome, STEP_TIMEOUT, "a pod reaches a Service by its name", &words, "")
    }

    /// What a cluster and a node keep.
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
