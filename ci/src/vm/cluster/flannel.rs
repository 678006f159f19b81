//! flannel, the network between the pods of several nodes, deployed with the manifest of its own
//! module.

use super::kubectl::Kubectl;
use super::modules;
use crate::image::{self, LAB_FULL};
use crate::site::Site;
use osbuild::error::{Error, Result};

/// The component.
const COMPONENT: &str = "flannel";

/// The file of its module that upstream's instructions apply. Its network is
/// [`Addressing::IPV4`](super::addressing::Addressing::IPV4)'s, with VXLAN.
const MANIFEST: &str = "Documentation/kube-flannel.yml";

/// The version of CNI in the manifest, and the newest one that the plugin of the component
/// `flannel-cni` knows.
const CNI_VERSION: &str = r#""cniVersion": "1.0.0""#;
const PLUGIN_CNI_VERSION: &str = r#""cniVersion": "0.4.0""#;

/// Deploys it.
pub fn deploy(site: &Site, kubectl: &Kubectl) -> Result<()> {
    let text = modules::file(site, &image::lock(site, LAB_FULL)?, COMPONENT, MANIFEST)?;
    match text.contains(CNI_VERSION) {
        true => kubectl.apply(&text.replace(CNI_VERSION, PLUGIN_CNI_VERSION)),
        false => Err(Error::build(format!("`{MANIFEST}` of `{COMPONENT}` has no {CNI_VERSION}"))),
    }
}
