//! etcd's snapshot, and a cluster that returns to it, as `builder/docs/cluster.md` describes it.

use super::{NODE, OwnCluster, STEP_TIMEOUT};
use crate::check::Outcome;
use osbuild::error::{Context, Result};
use std::fs;

/// The pod through which files of etcd's node are read and written.
const FILES: &str = include_str!("etcd-files.yaml");

/// The files as that pod sees them, and on this machine.
const SNAPSHOT: [&str; 2] = ["etcd-files:/etcd/snapshot.db", "snapshot.db"];
const MANIFEST: [&str; 2] = ["etcd-files:/manifests/etcd.yaml", "etcd.yaml"];

/// How etcd's manifest names its folder, and the folder of a restored snapshot.
const FOLDER: &str = "--data-dir=/var/lib/etcd\n";
const RESTORED: &str = "--data-dir=/var/lib/etcd/restored\n";

/// etcd's certificates, with which its client shows who it is.
const CERTIFICATES: [&str; 3] = [
    "--cacert=/etc/kubernetes/pki/etcd/ca.crt",
    "--cert=/etc/kubernetes/pki/etcd/server.crt",
    "--key=/etc/kubernetes/pki/etcd/server.key",
];

/// Restores a snapshot of etcd: a namespace made after the snapshot is then gone, and one deleted
/// after it is there again. `server` is the address of the node.
pub fn is_restored(cluster: &OwnCluster, server: &str, outcome: &mut Outcome) -> Result<()> {
    let kubectl = &cluster.kubectl;
    kubectl.apply(FILES)?;
    let words = ["-n=kube-system", "wait", "pod/etcd-files", "--for=condition=Ready"];
    kubectl.claim(outcome, STEP_TIMEOUT, "a pod reaches etcd's files", &words, "condition met")?;
    kubectl.output(&["create", "namespace", "before"])?;
    let save = ["etcdctl", "snapshot", "save", "/var/lib/etcd/snapshot.db"];
    in_etcd(cluster, NODE, &save)?;
    copy(cluster, SNAPSHOT)?;
    kubectl.output(&["delete", "namespace", "before"])?;
    kubectl.output(&["create", "namespace", "after"])?;

    let [there, here] = SNAPSHOT;
    copy(cluster, [here, there])?;
    let peer = format!("https://{server}:2380");
    in_etcd(
        cluster,
        NODE,
        &[
            &["etcdutl", "snapshot", "restore", "/var/lib/etcd/snapshot.db"][..],
            &["--data-dir=/var/lib/etcd/restored", "--name", NODE],
            &["--initial-cluster", &format!("{NODE}={peer}")],
            &["--initial-advertise-peer-urls", &peer],
            &["--bump-revision", "1000000000", "--mark-compacted"],
        ]
        .concat(),
    )?;
    move_etcd(cluster)?;
    let words = ["get", "namespaces", "-o=name"];
    let claim = "a namespace that was deleted after a snapshot is there again";
    kubectl.claim(outcome, STEP_TIMEOUT, claim, &words, "namespace/before")?;
    let namespaces = kubectl.output(&words)?;
    let claim = "a namespace that was made after the snapshot is gone";
    outcome.check(claim, !namespaces.contains("namespace/after"), || namespaces);
    let words = ["wait", "node", NODE, "--for=condition=Ready", "--timeout=60s"];
    let claim = "the node is Ready in the restored cluster";
    kubectl.claim(outcome, STEP_TIMEOUT, claim, &words, "condition met")
}

/// Has etcd's static pod use the restored folder.
fn move_etcd(cluster: &OwnCluster) -> Result<()> {
    let [there, here] = MANIFEST;
    copy(cluster, [there, here])?;
    let file = cluster.kubectl.file(here);
    let manifest = fs::read_to_string(&file).or_build(|| format!("cannot read `{here}`"))?;
    cluster.kubectl.write(here, &manifest.replace(FOLDER, RESTORED))?;
    copy(cluster, [here, there])
}

/// Executes a program in etcd's container on a node, and returns its output. A client gets etcd's
/// certificates.
pub fn in_etcd(cluster: &OwnCluster, node: &str, words: &[&str]) -> Result<String> {
    let etcd = format!("etcd-{node}");
    let exec = ["-n=kube-system", "exec", &etcd, "--"];
    let certificates = if words[0] == "etcdctl" { &CERTIFICATES[..] } else { &[] };
    cluster.kubectl.output(&[&exec[..], words, certificates].concat())
}

/// Copies a file between this machine and the pod of [`FILES`].
fn copy(cluster: &OwnCluster, [from, to]: [&str; 2]) -> Result<()> {
    cluster.kubectl.output(&["-n=kube-system", "cp", from, to]).map(drop)
}
