//! A resource has the node run a pod, of the probe's image.

use super::node::{Node, TIMEOUT, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use crate::vm::probe;
use osbuild::error::Result;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PODS: &str = "StaticPods";
const STATUSES: &str = "StaticPodStatuses";
const ID: &str = "stays";

/// The right that the recipe allows.
pub const API: &str = "static-pods = [\"host-network\"]\n";

const SPEC: &str = "{name: stays, hostNetwork: true, terminationGracePeriodSeconds: 2, containers: \
     [{name: ends, image: localhost/probe:1, imagePullPolicy: Never, args: [ends]}]}";
/// One that needs a right which the recipe does not allow.
const PRIVILEGED: &str = "{name: rights, hostNetwork: true, containers: [{name: ends, image: \
     localhost/probe:1, args: [ends], securityContext: {privileged: true}}]}";
/// One with the name of a pod of the image.
const SIGNED: &str = "{name: dhcp, hostNetwork: true, containers: [{name: a, image: \
     localhost/probe:1}]}";
/// One that needs a network for pods, which the node does not have.
const ALONE: &str = "{name: alone, containers: [{name: ends, image: localhost/probe:1, \
     imagePullPolicy: Never, args: [ends]}]}";

/// The manifest in the kubelet's folder.
const FILE: &str = "/run/osbuild/kubelet/pods/osbuild-setting-stays.json";
/// The fact about a process of the probe's program in a container without capabilities. The probe
/// itself is privileged.
const PROCESS: &str = "pod probe ";
const NO_CAPABILITIES: &str = " 0000000000000000 0000000000000000";
/// How often to look at the processes.
const PAUSE: Duration = Duration::from_millis(500);

/// It runs without a capability, and its manifest is put back. What the recipe does not allow, and
/// what the node cannot run, is an error in the status.
pub fn runs(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(PODS, ID, SPEC)?;
    has_status(node, ID, "running: true", "a resource has the node run a pod", outcome)?;
    let runs = becomes(node, true)?;
    outcome.check("the pod of a resource has no capability", runs, || "it is not there".into());
    let text = node.read(FILE)?;
    node.write(FILE, "{}")?;
    let within = node.becomes(FILE, &text)?;
    was_repaired("the manifest of a static pod is put back", within, BY_EVENT, outcome);
    for (id, spec, error, claim) in [
        ("rights", PRIVILEGED, "allows no `privileged`", "a right needs the recipe"),
        ("signed", SIGNED, "the image has a pod `dhcp`", "a pod of the image wins"),
        ("alone", ALONE, "reason: NetworkPluginNotReady", "a pod that cannot run says why"),
    ] {
        node.create(PODS, id, spec)?;
        has_status(node, id, error, claim, outcome)?;
        node.destroy(PODS, id)?;
    }
    has_status(node, ID, "running: true", "the pod outlasts its manifest's change", outcome)
}

/// It runs after a power cut, and ends with its resource.
pub fn outlasts_a_power_cut_and_ends(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, ID, "running: true", "a static pod outlasts a power cut", outcome)?;
    node.destroy(PODS, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("its status goes with its resource", is_gone, || "it has a status".into());
    let ended = becomes(node, false)?;
    outcome.check("a static pod ends with its resource", ended, || "its process runs".into());
    Ok(())
}

/// Waits until the pod's process runs, or does not.
fn becomes(node: &Node, runs: bool) -> Result<bool> {
    let began = Instant::now();
    loop {
        let facts = probe::report(node.facts)?;
        let is_it = |fact: &str| fact.starts_with(PROCESS) && fact.ends_with(NO_CAPABILITIES);
        if facts.lines().any(is_it) == runs {
            return Ok(true);
        }
        if began.elapsed() > TIMEOUT {
            return Ok(false);
        }
        sleep(PAUSE);
    }
}

fn has_status(node: &Node, id: &str, text: &str, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let status = node.resource_with(STATUSES, id, |yaml| yaml.contains(text))?;
    outcome.check(claim, yaml(&status).contains(text), || status.to_string());
    Ok(())
}
