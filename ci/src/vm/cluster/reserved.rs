//! Pods with processors, memory and huge pages of their own, images that nobody uses, and pods
//! with too much memory and too many processes.

use super::control_plane::ControlPlane;
use super::joining::{NodeFile, document};
use super::kubectl::Kubectl;
use super::lab::Lab;
use super::large_image;
use super::registry::Registry;
use super::wait::{Seen, wait};
use super::{Cluster, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::{Context, Result};
use std::time::Duration;

/// The settings of the kubelet, and where on DATA they are.
const SETTINGS: &str = include_str!("reserved_settings.yaml");
const SETTINGS_FILE: &str = "/etc/kubernetes/kubelet.conf.d/50-reserved.conf";

/// The end of the node document: 64 MiB in pages of 2 MiB.
const HUGE_PAGES: &str = "\n[kernel-parameters]\n\"vm.nr_hugepages\" = 32\n";
const HUGE_PAGES_SHOWN: &str = "64Mi";

/// The pods.
const PODS: &str = include_str!("reserved.yaml");
const GROWING: &str = include_str!("growing.yaml");
const FORKING: &str = include_str!("forking.yaml");

/// Prints why and how a pod has ended, and whether the cluster shows that memory is low.
const END: &str = "-o=jsonpath={.status.reason}: {.status.message}";
const PRESSURE: [&str; 3] = [
    "get",
    "nodes",
    "-o=jsonpath=low: {.items[*].status.conditions[?(@.type==\"MemoryPressure\")].status}",
];

/// How long the pod may take to grow: 2 MiB a second, for some hundred MiB.
const GROWTH_TIMEOUT: Duration = Duration::from_secs(900);

/// How long the emulated node may take to start a pod.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The image of 2 GiB, whose blob and files are on the node's disk.
const LARGE: &str = "example/large";
const DISK_MIB: u64 = 9216;

/// How long the emulated node may take to pull and unpack it.
const PULL_TIMEOUT: Duration = Duration::from_secs(1200);

/// How long an image may be there that nobody uses: its age, and the kubelet's interval of five
/// minutes twice.
const IMAGE_TIMEOUT: Duration = Duration::from_secs(900);

/// A claim, the words of `kubectl`, separated by single spaces, and the text in its output.
type Claim = (&'static str, &'static str, &'static str);

/// The node has two processors. The first one is reserved for what is no pod.
const CLAIMS: [Claim; 5] = [
    (
        "a pod has a processor of its own",
        "exec exclusive -- cat /proc/self/status",
        "Cpus_allowed_list:\t1\n",
    ),
    (
        "the other pods have the rest",
        "exec shared -- cat /proc/self/status",
        "Cpus_allowed_list:\t0\n",
    ),
    ("a volume is in huge pages", "exec exclusive -- stat -f -c %T /huge", "hugetlbfs"),
    (
        "the kubelet reserves memory for a pod",
        "exec shared -- cat /kubelet/memory_manager_state",
        r#""type":"memory","size":134217728}"#,
    ),
    ("a pod may not have huge pages beyond those of the node", "get pod greedy", "Pending"),
];

/// Prints the limit of the only pod of the class Guaranteed, which all of its containers share.
const POD_LIMIT: &str = "cat /cgroups/kubepods/pod*/hugetlb.2MB.max";

/// The kubelet gives a pod a processor, memory and huge pages that no other one has, deletes an
/// image that no pod uses, and evicts pods that take the memory and the processes of the others.
pub fn a_pod_has_what_is_reserved_for_it(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "workloads")?;
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start(site, cluster.plane.authority())?;
    registry.push_large(site, "e2e-test-images/agnhost", LARGE)?;
    cluster.plane.egress().route(serving::ADDRESS, lab.kubelet);
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    let files = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    for file in registry.node_files(cluster.plane.authority())? {
        file.write_below(files.path())?;
    }
    document(&cluster.plane)?.with(HUGE_PAGES).write_below(files.path())?;
    NodeFile::new(SETTINGS_FILE, 0o600, SETTINGS).write_below(files.path())?;
    let mut machine =
        lab.machine("reserved")?.processors(2).disk_size(DISK_MIB).files(files.path())?.boot()?;
    let node = cluster.ready_node(&mut machine, None)?;
    let shown = text(&node, "/status/allocatable/hugepages-2Mi");
    cluster.outcome.check("the node offers huge pages", shown == HUGE_PAGES_SHOWN, || shown.into());
    let approved = serving::approved(&kubectl, text(&node, "/metadata/name"))?;
    cluster.outcome.claim("`kubectl exec` works", approved);

    kubectl.apply(PODS)?;
    for (claim, words, expected) in CLAIMS {
        let words: Vec<&str> = words.split(' ').collect();
        kubectl.claim(&mut cluster.outcome, TIMEOUT, claim, &words, expected)?;
    }
    let words = ["exec", "shared", "--", "bash", "-c", POD_LIMIT];
    let claim = "a pod has huge pages up to its limit";
    kubectl.claim(&mut cluster.outcome, TIMEOUT, claim, &words, "16777216")?;
    deletes_an_image(&kubectl, &mut cluster.outcome)?;
    // Low memory keeps out no pod that tolerates it, but too few processes do, for five minutes.
    evicts_a_pod_with_much_memory(&kubectl, &mut cluster.outcome)?;
    evicts_a_pod_with_many_processes(&kubectl, &mut cluster.outcome)?;
    cluster.outcome.summary = format!("{} claims", cluster.outcome.passed);
    Ok(cluster.outcome)
}

/// A pod leaves the node less memory than it shall have. The kubelet ends it before the kernel
/// would. It shows the condition for five minutes.
fn evicts_a_pod_with_much_memory(kubectl: &Kubectl, outcome: &mut Outcome) -> Result<()> {
    kubectl.apply(GROWING)?;
    let message = ["get", "pod", "growing", END];
    let claim = "a pod with too much memory is evicted";
    let expected = "Evicted: The node was low on resource: memory";
    kubectl.claim(outcome, GROWTH_TIMEOUT, claim, &message, expected)?;
    let claim = "the cluster shows that the node's memory was low";
    kubectl.claim(outcome, TIMEOUT, claim, &PRESSURE, "low: True")
}

/// A pod leaves the node fewer processes than it shall have.
fn evicts_a_pod_with_many_processes(kubectl: &Kubectl, outcome: &mut Outcome) -> Result<()> {
    kubectl.apply(FORKING)?;
    let message = ["get", "pod", "forking", END];
    let claim = "a pod with too many processes is evicted";
    kubectl.claim(
        outcome,
        TIMEOUT,
        claim,
        &message,
        "Evicted: The node was low on resource: pids",
    )?;
    let running = ["get", "pod", "shared", "-o=jsonpath={.status.phase}"];
    kubectl.claim(outcome, TIMEOUT, "the other pods run on", &running, "Running")
}

/// The image of a pod is there, and goes some time after the pod has ended.
fn deletes_an_image(kubectl: &Kubectl, outcome: &mut Outcome) -> Result<()> {
    let images = ["get", "nodes", "-o=jsonpath=images: {.items[*].status.images[*].names}"];
    let size = ["exec", "large", "--", "stat", "-c", "%s", "/large"];
    let size_of_file = large_image::SIZE.to_string();
    kubectl.claim(
        outcome,
        PULL_TIMEOUT,
        "a pod with an image of 2 GiB runs",
        &size,
        &size_of_file,
    )?;
    let there = kubectl.until(TIMEOUT, &images, LARGE)?;
    outcome.claim("the image of a pod is on the node", there);
    kubectl.output(&["delete", "pod", "large"])?;
    let gone = wait(IMAGE_TIMEOUT, || {
        let shown = kubectl.output(&images)?;
        Ok(match shown.contains(LARGE) {
            false => Seen::Yes(()),
            true => Seen::NotYet(shown),
        })
    })?;
    outcome.claim("an image that no pod uses is deleted", gone);
    Ok(())
}
