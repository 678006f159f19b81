//! The versions of the control plane. A change of the configuration keeps the minor: a new one is
//! the work of `kubeadm upgrade`, which an administrator runs with the kubeadm of that minor.

use std::fmt;
use std::fs;

use osbuild_failure::{Failure, Outcome};
use serde_json::Value;

use crate::kubeadm::Kubeadm;

/// The static pod of the API server.
const SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// A minor of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Minor(u32, u32);

impl Minor {
    /// Reads a version such as `v1.35.8`. kubeadm takes it without the `v` as well.
    fn of(version: &str) -> Option<Self> {
        let version = version.trim();
        let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
        let mut number = || parts.next()?.parse().ok();
        Some(Self(number()?, number()?))
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Checks that kubeadm would neither take the control plane on the node to another minor, nor one
/// of a minor that it does not know. `wanted` is the version in its configuration, if that has one.
///
/// # Errors
/// It would, or kubeadm does not report its version.
pub fn keeps_minor(kubeadm: &Kubeadm, wanted: Option<&str>) -> Outcome {
    let Some(running) = fs::read_to_string(SERVER).ok().as_deref().and_then(minor_of_pod) else {
        return Ok(());
    };
    let own = kubeadm.version()?;
    let own = Minor::of(&own)
        .ok_or_else(|| Failure::new(format!("kubeadm has the version {}", own.trim())))?;
    check(running, own, wanted)
}

/// The minor of the image of a static pod. `None` if its tag is not a version: then the owner has
/// changed it.
fn minor_of_pod(manifest: &str) -> Option<Minor> {
    let pod: Value = serde_saphyr::from_str(manifest).ok()?;
    let image = pod.pointer("/spec/containers/0/image")?.as_str()?;
    Minor::of(image.split('@').next()?.rsplit_once(':')?.1)
}

fn check(running: Minor, own: Minor, wanted: Option<&str>) -> Outcome {
    if own < running {
        return Err(Failure::new(format!(
            "the control plane is {running} and the image's kubeadm {own}: update the node to \
             {running} first"
        )));
    }
    // A word such as `stable-1` is another version tomorrow.
    match wanted.and_then(Minor::of) {
        Some(wanted) if wanted == running => Ok(()),
        Some(wanted) => Err(Failure::new(format!(
            "the control plane is {running} and its `kubernetesVersion` {wanted}: only `kubeadm \
             upgrade` changes the minor"
        ))),
        None if own == running => Ok(()),
        None => Err(Failure::new(format!(
            "the control plane is {running} and the image's kubeadm {own}: its \
             `kubernetesVersion` has to be a version of {running}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_the_minor() {
        let (older, newer) = (Minor(1, 35), Minor(1, 36));
        for (running, own, wanted, reason) in [
            (older, older, Some("v1.35.9"), ""),
            (older, older, Some("1.35.9"), ""),
            (older, older, None, ""),
            (older, newer, Some("v1.35.8"), ""),
            (newer, older, Some("v1.35.8"), "update the node to 1.36"),
            (newer, older, Some("v1.36.5"), "update the node to 1.36"),
            (newer, older, None, "update the node to 1.36"),
            (newer, newer, Some("v1.35.8"), "only `kubeadm upgrade`"),
            (older, newer, Some("v1.36.5"), "only `kubeadm upgrade`"),
            (older, older, Some("v1.36.5"), "only `kubeadm upgrade`"),
            (older, newer, None, "has to be a version of 1.35"),
            (older, newer, Some("stable-1"), "has to be a version of 1.35"),
        ] {
            let checked = check(running, own, wanted);
            let failure = checked.err().map(|failure| failure.to_string()).unwrap_or_default();
            let is_expected = failure.contains(reason) && failure.is_empty() == reason.is_empty();
            assert!(is_expected, "{running} {own} {wanted:?}: {failure}");
        }
    }

    #[test]
    fn the_minor_of_a_static_pod_is_that_of_its_image() {
        let minor =
            |image| minor_of_pod(&format!("kind: Pod\nspec:\n  containers:\n  - image: {image}\n"));
        let name = "registry.k8s.io/kube-apiserver";
        assert_eq!(minor(format!("{name}:v1.36.5")), Some(Minor(1, 36)));
        assert_eq!(
            minor(format!("localhost:5000/a:v1.36.5@sha256:{}", "a".repeat(64))),
            Some(Minor(1, 36))
        );
        for image in [format!("{name}:latest"), name.to_owned(), "localhost:5000/a".to_owned()] {
            assert_eq!(minor(image.clone()), None, "{image}");
        }
        assert_eq!(minor_of_pod("kind: ["), None);
    }
}
