//! metrics-server, deployed with the manifest of its own module.

use super::control_plane::ControlPlane;
use super::images::{module, version};
use super::kubectl::Kubectl;
use crate::image::{self, LAB_FULL};
use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs::File;
use std::io::Read;
use zip::ZipArchive;

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
    let zip = module(&site.store()?, &lock, COMPONENT)?;
    let cannot = || format!("cannot read the module of `{COMPONENT}`");
    let mut zip = ZipArchive::new(File::open(zip).or_build(cannot)?).or_build(cannot)?;
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).or_build(cannot)?;
        let name = entry.name().or_build(cannot)?.into_owned();
        let Some((_, name)) = name.split_once(BASE) else { continue };
        let mut text = String::new();
        entry.read_to_string(&mut text).or_build(cannot)?;
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
