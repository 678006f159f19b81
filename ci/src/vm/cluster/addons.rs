//! kube-proxy and CoreDNS, deployed by the real `kubeadm`.

use super::control_plane::ControlPlane;
use super::modules::version;
use crate::image::{self, LAB};
use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs;
use std::process::Command;

/// The domain of Services.
pub const DOMAIN: &str = "cluster.local";

/// How kube-proxy routes connections to Services (its `mode`).
#[derive(Clone, Copy)]
pub enum ProxyMode {
    /// With nftables.
    Nftables,
    /// With iptables.
    Iptables,
}

impl ProxyMode {
    fn word(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        }
    }
}

/// Deploys both, or updates them. `pods` is the network of the cluster's pods.
pub fn deploy(site: &Site, plane: &ControlPlane, mode: ProxyMode, pods: &str) -> Result<()> {
    let kubernetes = plane.minor().version(site)?;
    let coredns = version(&image::lock(site, LAB)?, "coredns")?;
    let (addressing, mode) = (plane.addressing(), mode.word());
    let (host, services) = (addressing.host(), addressing.services);
    let server = addressing.at_host(plane.port());
    let file = plane.path("kubeadm.yaml");
    let text = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n\
         localAPIEndpoint: {{ advertiseAddress: \"{host}\", bindPort: {} }}\n\
         nodeRegistration: {{ name: lab, criSocket: unix:///run/containerd/containerd.sock }}\n\
         ---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n\
         kubernetesVersion: {kubernetes}\ncontrolPlaneEndpoint: \"{server}\"\n\
         networking:\n  serviceSubnet: \"{services}\"\n  podSubnet: \"{pods}\"\n  \
         dnsDomain: {DOMAIN}\n\
         dns: {{ imageTag: {coredns} }}\n\
         ---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
         mode: {mode}\n",
        plane.port()
    );
    fs::write(&file, text).or_build(|| "cannot write kubeadm's configuration".to_owned())?;
    let mut kubeadm = Command::new(plane.minor().bin(site).join("kubeadm"));
    // The kubeconfig names the certificates relative to its folder.
    kubeadm.current_dir(plane.path("."));
    kubeadm.args(["init", "phase", "addon", "all", "--config"]).arg(&file);
    site.finish("kubeadm", kubeadm.arg("--kubeconfig").arg(plane.kubeconfig()?)).map(drop)
}
