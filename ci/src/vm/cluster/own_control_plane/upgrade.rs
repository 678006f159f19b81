//! kubeadm of the next minor upgrades a control plane, as `builder/docs/cluster.md` describes it.
//! The kubelet stays as it is.

use super::desk::{Desk, KUBECONFIG_LINE};
use super::{NEW_NODE_TIMEOUT, NODE, OwnCluster, STATIC_PODS};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::cluster::images::{self, NamedImage};
use crate::vm::cluster::kubectl::Kubectl;
use crate::vm::cluster::minor::Minor;
use crate::vm::cluster::wait::{Seen, wait};
use crate::vm::probe::free_port;
use osbuild::error::Result;
use std::thread::sleep;
use std::time::Duration;

/// The network of the node.
const NETWORK: &str = "ci-next-minor";

/// The pod with kubeadm, and its configuration.
const UPGRADE: &str = include_str!("upgrade.yaml");
const POD: &str = "pod/kubeadm-upgrade";

/// The command for the first node of a control plane and its part of the configuration, each with
/// that for the others.
const COMMAND: (&str, &str) = (
    "[upgrade, apply, --config=/upgrade/upgrade.yaml, --yes]",
    "[upgrade, node, --config=/upgrade/upgrade.yaml]",
);
const PART: (&str, &str) = ("    apply:\n      kubernetesVersion: v1.36.5\n", "    node:\n");

/// The errors that kubeadm ignores, and those for an emulated node: kubeadm waits only 15 s for the
/// Job of `CreateJob`.
const IGNORED: &str = "ignorePreflightErrors: [SystemVerification]";
const IGNORED_HERE: &str = "ignorePreflightErrors: [SystemVerification, CreateJob]";
/// The same with images that cannot be pulled.
const IGNORED_TOO: &str = "ignorePreflightErrors: [SystemVerification, CreateJob, ImagePull]";

/// How long kubeadm waits for a static pod, an emulated one, and one that does not start.
const TIMEOUT: &str = "upgradeManifests: 5m0s";
const TIMEOUT_HERE: &str = "upgradeManifests: 20m0s";
const TIMEOUT_IN_VAIN: &str = "upgradeManifests: 2m0s";

/// The field of the configuration with the folder of patches, and one before it by which the
/// control plane keeps its etcd.
const PATCHES: &str = "patches:";
const KEEPS_ETCD: &str = "etcdUpgrade: false\n      patches:";

/// The phases in which a pod has ended.
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// The server whose image is missing at first.
const MISSING: &str = "kube-apiserver";

/// How often to ask for the pod. Each question costs an emulated API server a handshake, while it
/// has 30 s for the first steps of its start.
const INTERVAL: Duration = Duration::from_secs(20);
/// How long the pod may take in all.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(3600);

/// A control plane of the peg's minor survives an upgrade whose API server does not start. Then it
/// is upgraded, and its cluster runs a Deployment before and after that, and after a power cut.
pub fn a_control_plane_is_upgraded_to_the_next_minor(site: &Site) -> Result<Outcome> {
    Minor::Next.build(site)?;
    let desk = Desk::new(site, NETWORK)?;
    let (missing, there): (Vec<NamedImage>, Vec<NamedImage>) =
        images::next_control_plane(site, &site.store()?)?
            .into_iter()
            .partition(|image| image.name == MISSING);
    desk.push(&there)?;
    let (peg, next) = (Minor::Peg.version(site)?, Minor::Next.version(site)?);
    let mut outcome = Outcome::default();
    let files = desk.pulls("first")?;
    let forward = format!("{}:6443", free_port()?);
    let flags = ["--keep", "--name", NODE, "--files", &files, "--forward", &forward];

    let mut node = desk.run_plane("next-minor-first", &flags)?;
    let kubeconfig = node.wait_at_most(NEW_NODE_TIMEOUT, KUBECONFIG_LINE)?;
    let kubectl = Kubectl::with(site, kubeconfig.into(), desk.path("kubectl"))?;
    let cluster = OwnCluster { kubectl };
    let upgraded = Upgraded { cluster: &cluster, node: NODE, kubelet: &peg };
    upgraded.cluster.has_what_kubeadm_makes(&mut outcome)?;
    upgraded.cluster.runs_a_deployment(&mut outcome)?;
    upgraded.is_of(&mut outcome, &peg)?;
    upgraded.survives_a_failure(&mut outcome)?;
    upgraded.is_of(&mut outcome, &peg)?;
    upgraded.cluster.answers(&mut outcome)?;

    desk.push(&missing)?;
    upgraded.is_upgraded(&mut outcome, &[])?;
    upgraded.is_whole(&mut outcome, &next)?;
    drop(node);
    let mut node = desk.run_plane("next-minor-again", &flags)?;
    node.wait_at_most(NEW_NODE_TIMEOUT, KUBECONFIG_LINE)?;
    upgraded.is_whole(&mut outcome, &next)?;
    outcome.summary = format!("{peg} to {next}, {} claims", outcome.passed);
    Ok(outcome)
}

/// Upgrades the nodes of a control plane one after another: the first one with the cluster, and
/// each of the others for itself.
pub fn nodes_are_upgraded(
    desk: &Desk,
    cluster: &OwnCluster,
    nodes: &[&str],
    outcome: &mut Outcome,
) -> Result<()> {
    desk.push(&images::next_control_plane(desk.site, &desk.site.store()?)?)?;
    let (peg, next) = (Minor::Peg.version(desk.site)?, Minor::Next.version(desk.site)?);
    let upgraded = |node| Upgraded { cluster, node, kubelet: &peg };
    for (index, node) in nodes.iter().copied().enumerate() {
        let for_others: &[(&str, &str)] = if index == 0 { &[] } else { &[COMMAND, PART] };
        upgraded(node).is_upgraded(outcome, for_others)?;
    }
    nodes.iter().copied().try_for_each(|node| upgraded(node).is_of(outcome, &next))
}

/// A node whose control plane is of one minor and then of another.
struct Upgraded<'a> {
    cluster: &'a OwnCluster<'a>,
    /// Its name.
    node: &'a str,
    /// The version of its kubelet, which stays.
    kubelet: &'a str,
}

impl Upgraded<'_> {
    /// The upgrade whose API server has no image: kubeadm takes it back.
    fn survives_a_failure(&self, outcome: &mut Outcome) -> Result<()> {
        let in_vain = [(IGNORED, IGNORED_TOO), (TIMEOUT, TIMEOUT_IN_VAIN), (PATCHES, KEEPS_ETCD)];
        self.ends(outcome, "kubeadm reports an API server that does not start", FAILED, &in_vain)?;
        let words = ["-n=kube-system", "logs", POD];
        let recovered = "kubeadm has tried to recover everything into the earlier state";
        self.cluster.claim(outcome, "kubeadm takes its upgrade back", &words, recovered)
    }

    /// The upgrade, with more changes of the pod's manifest.
    fn is_upgraded(&self, outcome: &mut Outcome, changes: &[(&str, &str)]) -> Result<()> {
        let here = [(IGNORED, IGNORED_HERE), (TIMEOUT, TIMEOUT_HERE)];
        let changes = [&here, changes].concat();
        self.ends(outcome, "kubeadm upgrades the control plane", SUCCEEDED, &changes)
    }

    /// Runs the pod with kubeadm until it has ended. The changes of its manifest are pairs of
    /// texts.
    fn ends(
        &self,
        outcome: &mut Outcome,
        claim: &str,
        phase: &str,
        changes: &[(&str, &str)],
    ) -> Result<()> {
        let kubectl = &self.cluster.kubectl;
        kubectl.output(&["-n=kube-system", "delete", POD, "--ignore-not-found"])?;
        let manifest =
            changes.iter().fold(UPGRADE.replace(NODE, self.node), |manifest, (from, to)| {
                manifest.replace(from, to)
            });
        kubectl.apply(&manifest)?;
        let words = ["-n=kube-system", "get", POD, "-o=jsonpath={.status.phase}"];
        let ended = wait(UPGRADE_TIMEOUT, || {
            sleep(INTERVAL);
            let ran = kubectl.run(&words)?;
            let has_ended = ran.code == Some(0) && [SUCCEEDED, FAILED].contains(&&*ran.output);
            Ok(if has_ended { Seen::Yes(ran.output) } else { Seen::NotYet(ran.output) })
        })?;
        let log = kubectl.run(&["-n=kube-system", "logs", POD])?.output;
        outcome.check(claim, ended.as_deref() == Ok(phase), || format!("{ended:?}: {log}"));
        Ok(())
    }

    /// The whole cluster after the upgrade.
    fn is_whole(&self, outcome: &mut Outcome, version: &str) -> Result<()> {
        self.cluster.has_what_kubeadm_makes(outcome)?;
        self.is_of(outcome, version)?;
        self.cluster.rolls_out_again(outcome)
    }

    /// The version of all parts but the kubelet.
    fn is_of(&self, outcome: &mut Outcome, version: &str) -> Result<()> {
        let cluster = self.cluster;
        let words = ["get", "--raw=/version"];
        cluster.claim(outcome, "the API server has the version", &words, &quoted(version))?;
        for server in STATIC_PODS.into_iter().filter(|pod| pod.starts_with("kube-")) {
            let pod = format!("pod/{server}-{}", self.node);
            let image = "-o=jsonpath={.status.containerStatuses[*].image}";
            let words = ["-n=kube-system", "get", &pod, image];
            let expected = format!("{server}:{version}");
            cluster.claim(outcome, "a static pod has the version", &words, &expected)?;
        }
        let proxy = "-o=jsonpath={.spec.template.spec.containers[*].image}";
        let words = ["-n=kube-system", "get", "daemonset/kube-proxy", proxy];
        cluster.claim(outcome, "kube-proxy has the version", &words, &format!(":{version}"))?;
        let words = ["-n=kube-system", "get", "configmap/kubeadm-config", "-o=yaml"];
        let expected = format!("kubernetesVersion: {version}");
        cluster.claim(outcome, "kubeadm's configuration has the version", &words, &expected)?;
        let words = ["get", "node", self.node, "-o=jsonpath={.status.nodeInfo.kubeletVersion}"];
        cluster.claim(outcome, "the kubelet stays as it is", &words, self.kubelet)
    }
}

/// The text as a string of JSON.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
