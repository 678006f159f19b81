//! Devices that pods claim by dynamic resource allocation, from the driver with which Kubernetes
//! tests that.

use super::super::images::AGNHOST;
use super::super::kubectl::Kubectl;
use super::super::modules;
use crate::check::Outcome;
use crate::image::{self, LAB_FULL};
use crate::site::Site;
use osbuild::error::Result;
use std::time::Duration;

/// The component of the driver, and the folder of its module with examples.
const COMPONENT: &str = "dra-test-driver";
const EXAMPLES: &str = "test/e2e/dra/test-driver/deploy/example/";

/// The driver's namespace, and its pods. Upstream has no manifest of them.
const DRIVER: &str = include_str!("device_driver.yaml");

const NAMESPACE: &str = "dra-kubelet-plugin-namespace";

/// The start of the reference to `agnhost` in the examples.
const IMAGE: &str = "registry.k8s.io/e2e-test-images/agnhost:";

/// The variable that the driver gives to a container with a device of the example's claim.
const VARIABLE: &str = "user_a=b";

/// How long the driver may take to start, and a claim to hold.
const ROLLOUT: &str = "--timeout=300s";
const TIMEOUT: Duration = Duration::from_secs(300);

/// A driver that runs as a pod offers devices of its node, and a container has the one that its pod
/// claims: the driver describes it to containerd in a file (CDI).
pub fn a_pod_has_the_device_that_it_claims(
    site: &Site,
    kubectl: &Kubectl,
    outcome: &mut Outcome,
) -> Result<()> {
    let lock = image::lock(site, LAB_FULL)?;
    let example = |name: &str| modules::file(site, &lock, COMPONENT, &format!("{EXAMPLES}{name}"));
    kubectl.apply(&DRIVER.replace("VERSION", &modules::version(&lock, COMPONENT)?))?;
    kubectl.apply(&example("plugin-permissions.yaml")?)?;
    let status = ["rollout", "status", "daemonset/driver", "--namespace", NAMESPACE, ROLLOUT];
    kubectl.output(&status)?;
    outcome.passed += 1;
    kubectl.apply(&example("deviceclass.yaml")?)?;
    kubectl.apply(&with_our_agnhost(&example("pod-inline.yaml")?))?;
    let words = ["logs", "test-inline-claim", "--container=with-resource"];
    let claim = "a container has the device that its pod claims";
    kubectl.claim(outcome, TIMEOUT, claim, &words, VARIABLE)?;
    let other = kubectl.output(&["logs", "test-inline-claim", "--container=without-resource"])?;
    let holds = other.contains("PATH=") && !other.contains(VARIABLE);
    outcome.check("another container of the pod does not have it", holds, || other);
    kubectl.output(&["delete", "pod", "test-inline-claim"])?;
    let words = ["wait", "--for=delete", "resourceclaim", "--selector=app=inline-resource"];
    kubectl.claim(outcome, TIMEOUT, "the device is free when its pod has ended", &words, "")
}

/// An example whose containers run the version of `agnhost` that the registry has.
fn with_our_agnhost(example: &str) -> String {
    let line = |line: &str| match line.split_once(IMAGE) {
        Some((start, _)) => format!("{start}{IMAGE}{AGNHOST}\n"),
        None => format!("{line}\n"),
    };
    example.lines().map(line).collect()
}
