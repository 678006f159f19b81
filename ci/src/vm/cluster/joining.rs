//! The files that a node needs to join a cluster, installed as the pods of an administrator and of
//! a CNI would install them.

use super::certificates::kubeconfig;
use super::control_plane::ControlPlane;
use crate::vm::probe;
use osbuild::error::{Context, Result};
use osbuild_abi::paths::{ADMIN_SOCKET, BOOTSTRAP_KUBECONFIG, KUBELET_CONFIG_DIR};
use osbuild_protocol::Request;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Start of the addresses of the node's pods.
pub const PODS: &str = "10.244.0.";

/// The cluster's CA on the node.
const CA: &str = "/etc/kubernetes/ca.crt";

/// Where containerd looks for CNI plugins and for their configuration.
const PLUGINS: &str = "/opt/cni/bin";
const NETWORK: &str = "/etc/cni/net.d/10-lab.conflist";

/// A bridge with addresses and without NAT: a pod reaches the node and other pods.
const BRIDGE: &str = r#"{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [{
    "type": "bridge",
    "bridge": "cni0",
    "isGateway": true,
    "ipam": {
      "type": "host-local",
      "ranges": [[{ "subnet": "10.244.0.0/24" }]],
      "routes": [{ "dst": "0.0.0.0/0" }]
    }
  }]
}
"#;

/// Ports of the loopback that lead to the probe's.
pub struct Ports {
    /// To [`probe::PLACE`].
    pub place: u16,
    /// To [`probe::SOCKET`].
    pub socket: u16,
}

/// Installs the files on DATA and restarts the kubelet. `bin` has the CNI plugins.
pub fn join(plane: &ControlPlane, bin: &Path, ports: &Ports) -> Result<()> {
    let archive = archive(plane, bin)?;
    probe::command(ports.place, |stream| stream.write_all(&archive))?;
    probe::command(ports.socket, |stream| {
        write!(stream, "{ADMIN_SOCKET} {}", Request::RestartKubelet)
    })
}

/// One archive of all files, so that the kubelet reads none before all are there.
fn archive(plane: &ControlPlane, bin: &Path) -> Result<Vec<u8>> {
    let user = format!("token: {}", plane.token());
    let bootstrap = kubeconfig(&plane.server(), &format!("certificate-authority: {CA}"), &user);
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |path: &str, mode: u32, bytes: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(mode);
        header.set_size(bytes.len() as u64);
        archive
            .append_data(&mut header, path.trim_start_matches('/'), bytes)
            .or_build(|| format!("cannot pack `{path}`"))
    };
    add(CA, 0o644, plane.ca()?.as_bytes())?;
    add(BOOTSTRAP_KUBECONFIG, 0o600, bootstrap.as_bytes())?;
    add(&format!("{KUBELET_CONFIG_DIR}/50-cluster.conf"), 0o644, settings().as_bytes())?;
    for plugin in ["bridge", "host-local"] {
        let bytes = fs::read(bin.join(plugin))
            .or_build(|| format!("cannot read the CNI plugin `{plugin}`"))?;
        add(&format!("{PLUGINS}/{plugin}"), 0o755, &bytes)?;
    }
    add(NETWORK, 0o644, BRIDGE.as_bytes())?;
    archive.into_inner().or_build(|| "cannot pack the files of the node".to_owned())
}

/// The kubelet's settings: the cluster authenticates and authorizes its clients.
fn settings() -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         authentication: {{ x509: {{ clientCAFile: {CA} }}, webhook: {{ enabled: true }} }}\n\
         authorization: {{ mode: Webhook }}\n"
    )
}
