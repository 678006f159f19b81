//! metrics-server, deployed with the manifest of its own module.

use super::control_plane::ControlPlane;
use super::kubectl::Kubectl;
use super::modules::{self, version};
use crate::image::{self, LAB_FULL};
use crate::site::Site;
use osbuild::error::Result;

/// The component.
const COMPONENT: &str = "metrics-server";

/// The folder of its module with the manifest, and the image in it.
const BASE: &str = "manifests/base/";
const IMAGE: &str = "gcr.io/k8s-staging-metrics-server/metrics-server";

/// The address of its Service, to which the API server connects, and the port of the node that
/// leads there.
const ADDRESS: &str = "10.96.0.20";
pub const NODE_PORT: u16 = 30443;

/// Deploys it. `forwarded` is the port of the loopback that leads to [`NODE_PORT`].
pub fn deploy(site: &Site, plane: &ControlPlane, kubectl: &Kubectl, forwarded: u16) -> Result<()> {
    let lock = image::lock(site, LAB_FULL)?;
    plane.egress().route(&format!("{ADDRESS}:443"), forwarded);
    for (name, text) in modules::files(site, &lock, COMPONENT, BASE)? {
        kubectl.write(&format!("{COMPONENT}/base/{name}"), &text)?;
    }
    let text = kustomization(&version(&lock, COMPONENT)?);
    kubectl.write(&format!("{COMPONENT}/kustomization.yaml"), &text)?;
    kubectl.output(&["apply", "--kustomize", COMPONENT]).map(drop)
}

/// The image of a release, and a Service that is reachable from outside of the cluster.
fn kustomization(version: &str) -> String {
    format!(
        "resources: [base]\n\
         images:\n- name: {IMAGE}\n  newName: registry.k8s.io/metrics-server/metrics-server\n  \
         newTag: {version}\n\
         patches:\n- target: {{ kind: Service, name: {COMPONENT} }}\n  patch: |\n    \
         - {{ op: add, path: /spec/type, value: NodePort }}\n    \
         - {{ op: add, path: /spec/clusterIP, value: {ADDRESS} }}\n    \
         - {{ op: add, path: /spec/ports/0/nodePort, value: {NODE_PORT} }}\n"
    )
}
