//! NetworkPolicies, enforced by an unmodified program with the manifest of its own module.

use super::addons::DOMAIN;
use super::kubectl::Kubectl;
use super::modules::{self, version};
use super::wait::{Seen, wait};
use crate::check::Outcome;
use crate::image::{self, LAB_FULL};
use crate::site::{Ran, Site};
use osbuild::error::Result;
use std::time::Duration;

/// The component, and the DaemonSet in its manifest.
const COMPONENT: &str = "kube-network-policies";

/// The file of its module that upstream's instructions apply, and the image in it.
const MANIFEST: &str = "install.yaml";
const IMAGE: &str = "registry.k8s.io/networking/kube-network-policies";

/// The pods that ask, and the policies.
const ASKERS: &str = include_str!("askers.yaml");
const POLICIES: &str = include_str!("network_policies.yaml");

/// The line that the program logs when containerd has accepted it as a plugin of NRI.
const ACCEPTED: &str = "Synchronized state with the runtime";

/// How long an asker waits for a connection, and its output if nothing answers.
const CONNECT_TIMEOUT: &str = "--timeout=4s";
const NO_ANSWER: &str = "TIMEOUT";

/// How long images and pods, and a claim, may take.
const ROLLOUT: &str = "--timeout=900s";
const TIMEOUT: Duration = Duration::from_secs(300);

/// The Service in front of the pods that are asked.
const SERVICE_PORT: u16 = 80;

/// Starts the pods that ask, and claims that each of them reaches `targets`.
pub fn start_askers(kubectl: &Kubectl, targets: &[String], outcome: &mut Outcome) -> Result<()> {
    kubectl.apply(ASKERS)?;
    kubectl.output(&["wait", "--for=condition=Ready", "pod", "--selector=role", ROLLOUT])?;
    for asker in ["friend", "stranger", "confined"] {
        for target in targets {
            let connects = connects(kubectl, asker, target)?;
            outcome.claim("without a policy, a pod reaches those of both nodes", connects);
        }
    }
    Ok(())
}

/// Deploys the program, and then the policies.
pub fn deploy(site: &Site, kubectl: &Kubectl, outcome: &mut Outcome) -> Result<()> {
    let lock = image::lock(site, LAB_FULL)?;
    let manifest = modules::file(site, &lock, COMPONENT, MANIFEST)?;
    kubectl.write(&format!("{COMPONENT}/{MANIFEST}"), &manifest)?;
    let tag = version(&lock, COMPONENT)?;
    let text = format!("resources: [{MANIFEST}]\nimages:\n- {{ name: {IMAGE}, newTag: {tag} }}\n");
    kubectl.write(&format!("{COMPONENT}/kustomization.yaml"), &text)?;
    kubectl.output(&["apply", "--kustomize", COMPONENT])?;
    runs(kubectl, outcome, "")?;
    kubectl.apply(POLICIES)
}

/// Claims that the program runs on both nodes, and that containerd reports its pods to it; `when`
/// follows the names of the claims.
pub fn runs(kubectl: &Kubectl, outcome: &mut Outcome, when: &str) -> Result<()> {
    let (daemon_set, system) = (format!("daemonset/{COMPONENT}"), "--namespace=kube-system");
    kubectl.output(&["rollout", "status", system, &daemon_set, ROLLOUT])?;
    outcome.passed += 1;
    let selector = format!("--selector=app={COMPONENT}");
    let accepted = wait(TIMEOUT, || {
        let logs = kubectl.run(&["logs", system, &selector, "--prefix", "--tail=-1"])?.output;
        Ok(match logs.matches(ACCEPTED).count() {
            2 => Seen::Yes(()),
            count => Seen::NotYet(format!("{count} of 2 logs have `{ACCEPTED}`: {logs}")),
        })
    })?;
    outcome.claim(&format!("containerd accepts a plugin of NRI on both nodes{when}"), accepted);
    Ok(())
}

/// Claims that the policies hold for `targets`, each an address and port of a pod behind the
/// Service `web`; `when` follows the names of the claims.
pub fn hold(
    kubectl: &Kubectl,
    targets: &[String],
    outcome: &mut Outcome,
    when: &str,
) -> Result<()> {
    let service = format!("web.default.svc.{DOMAIN}:{SERVICE_PORT}");
    for target in targets.iter().chain([&service]) {
        let dropped = has_no_answer(kubectl, "stranger", target)?;
        outcome.claim(&format!("a policy keeps a pod from `{target}`{when}"), dropped);
        let reached = connects(kubectl, "friend", target)?;
        outcome.claim(&format!("a policy lets a pod reach `{target}`{when}"), reached);
    }
    // The program answers `DNS: …` if it cannot resolve the name.
    let dropped = has_no_answer(kubectl, "confined", &service)?;
    outcome.claim(&format!("a policy leaves a pod nothing but DNS{when}"), dropped);
    Ok(())
}

/// Removes the policies, and claims that each pod reaches `targets` again.
pub fn remove(kubectl: &Kubectl, targets: &[String], outcome: &mut Outcome) -> Result<()> {
    kubectl.output(&["delete", "networkpolicy", "--all"])?;
    for target in targets {
        for asker in ["stranger", "confined"] {
            let connects = connects(kubectl, asker, target)?;
            outcome.claim("a pod reaches others again without its policies", connects);
        }
    }
    Ok(())
}

/// Asks until a connection succeeds.
fn connects(
    kubectl: &Kubectl,
    asker: &str,
    target: &str,
) -> Result<std::result::Result<(), String>> {
    ask(kubectl, asker, target, |ran| ran.code == Some(0))
}

/// Asks until no answer comes.
fn has_no_answer(
    kubectl: &Kubectl,
    asker: &str,
    target: &str,
) -> Result<std::result::Result<(), String>> {
    ask(kubectl, asker, target, |ran| ran.output.contains(NO_ANSWER))
}

/// Has a pod open a connection until `is_expected`.
fn ask(
    kubectl: &Kubectl,
    asker: &str,
    target: &str,
    is_expected: impl Fn(&Ran) -> bool,
) -> Result<std::result::Result<(), String>> {
    let words = ["exec", asker, "--", "/agnhost", "connect", CONNECT_TIMEOUT, target];
    wait(TIMEOUT, || {
        let ran = kubectl.run(&words)?;
        Ok(match is_expected(&ran) {
            true => Seen::Yes(()),
            false => Seen::NotYet(format!("`{asker}` to `{target}`: {}", ran.output)),
        })
    })
}
