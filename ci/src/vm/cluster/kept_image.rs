//! A pod starts from an image that the node keeps while its registry is away.

use super::kubectl::Kubectl;
use super::node_api::NodeApi;
use super::registry::Registry;
use super::wait::{Seen, wait};
use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::Result;
use std::time::Duration;

/// How long the emulated node may take to pull the image, and to start a pod.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The image. The kubelet has not pulled it.
const IMAGE: &str = "registry.k8s.io/e2e-test-images/agnhost:2.59";
/// An image that the node does not keep. It is in the registry, too.
const OTHER: &str = "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel3";

/// The node pulls the image by itself. Then the registry ends, and the kubelet starts a pod with
/// its default policy; it cannot start one of another image, which shows that the registry is away.
pub fn starts_without_its_registry(
    site: &Site,
    registry: &mut Registry,
    kubectl: &Kubectl,
    node_api: &NodeApi,
    outcome: &mut Outcome,
) -> Result<()> {
    let resource = format!("type: SystemImage\nid: kept\nspec: {{ image: {IMAGE:?} }}\n");
    node_api.apply("kept.yaml", &resource, &[])?;
    let kept = wait(TIMEOUT, || {
        let status = node_api.finish(&["get", "systemimagestatuses", "kept", "-o", "yaml"])?;
        Ok(if status.contains("kept: true") { Seen::Yes(()) } else { Seen::NotYet(status) })
    })?;
    outcome.claim("a node pulls an image by itself", kept);
    registry.stop();
    kubectl.apply(&format!("{}---\n{}", pod("kept", IMAGE), pod("other", OTHER)))?;
    let words = ["wait", "pod/kept", "--for=condition=Ready", "--timeout=60s"];
    let claim = "a pod starts from an image that the node keeps while its registry is away";
    kubectl.claim(outcome, TIMEOUT, claim, &words, "condition met")?;
    let words = ["get", "pod/other", "-o=jsonpath={..waiting.reason}"];
    let claim = "a pod of another image does not";
    kubectl.claim(outcome, TIMEOUT, claim, &words, "Image")?;
    kubectl.output(&["delete", "pod/kept", "pod/other", "--now"])?;
    registry.serve(site)
}

/// A pod that only waits.
fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name} }}\nspec:\n  \
         terminationGracePeriodSeconds: 1\n  tolerations: [{{ operator: Exists }}]\n  \
         containers: [{{ name: a, image: {image:?}, args: [pause] }}]\n"
    )
}
