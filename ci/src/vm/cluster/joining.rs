//! The files that a node needs to join a cluster, installed as the pods of an administrator and of
//! a CNI would install them.

use super::addons::DOMAIN;
use super::control_plane::ControlPlane;
use crate::vm::probe;
use osbuild::error::{Context, Result};
use osbuild_abi::paths::{ADMIN_SOCKET, NODE_DOCUMENT};
use osbuild_protocol::Request;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A label and a taint with which the node registers.
pub const LABEL: (&str, &str) = ("topology.kubernetes.io/zone", "lab-zone");
pub const TAINT: &str = "example.org/lab=7:PreferNoSchedule";

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

/// A file on the node.
pub struct NodeFile {
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

impl NodeFile {
    /// A file with an absolute path below one of the node's writable paths.
    pub fn new(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        NodeFile { path: path.into(), mode, bytes: bytes.into() }
    }

    /// The file with more text at its end.
    pub fn with(mut self, text: &str) -> Self {
        self.bytes.extend(text.as_bytes());
        self
    }

    /// Writes it to a folder of this host that is laid out like the node's root.
    pub fn write_below(&self, root: &Path) -> Result<()> {
        let to = root.join(self.path.trim_start_matches('/'));
        let cannot = || format!("cannot write `{}`", to.display());
        fs::create_dir_all(to.parent().unwrap_or(root)).or_build(cannot)?;
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(self.mode).open(&to);
        file.and_then(|mut file| file.write_all(&self.bytes)).or_build(cannot)
    }
}

/// Installs what a node needs to join, and `more`, on DATA, and restarts the kubelet.
pub fn join(plane: &ControlPlane, more: Vec<NodeFile>, ports: &Ports) -> Result<()> {
    join_with(document(plane)?, more, ports)
}

/// Like [`join`], with this node document.
pub fn join_with(document: NodeFile, more: Vec<NodeFile>, ports: &Ports) -> Result<()> {
    let mut files = more;
    files.push(document);
    install(&files, ports)
}

/// Installs files on DATA, and restarts the kubelet.
pub fn install(files: &[NodeFile], ports: &Ports) -> Result<()> {
    let archive = archive(files)?;
    probe::command(ports.place, |stream| stream.write_all(&archive))?;
    probe::command(ports.socket, |stream| {
        write!(stream, "{ADMIN_SOCKET} {}", Request::RestartKubelet)
    })
}

/// The CNI plugins of `bin` that a bridge needs, and its configuration.
pub fn bridge(bin: &Path) -> Result<Vec<NodeFile>> {
    let mut files = vec![NodeFile::new(NETWORK, 0o644, BRIDGE)];
    for plugin in ["bridge", "host-local"] {
        let bytes = fs::read(bin.join(plugin))
            .or_build(|| format!("cannot read the CNI plugin `{plugin}`"))?;
        files.push(NodeFile::new(format!("{PLUGINS}/{plugin}"), 0o755, bytes));
    }
    Ok(files)
}

/// The node document.
pub fn document(plane: &ControlPlane) -> Result<NodeFile> {
    document_at(plane, &plane.server())
}

/// The node document, with these lines more in the section of the kubelet.
pub fn document_with(plane: &ControlPlane, kubelet: &str) -> Result<NodeFile> {
    document_of(plane, &plane.server(), kubelet)
}

/// The node document, with this URL of the API server.
pub fn document_at(plane: &ControlPlane, server: &str) -> Result<NodeFile> {
    document_of(plane, server, "")
}

fn document_of(plane: &ControlPlane, server: &str, kubelet: &str) -> Result<NodeFile> {
    let text = format!(
        "[cluster]\nserver = \"{server}\"\ntoken = \"{}\"\ndns = [\"{}\"]\n\
         domain = \"{DOMAIN}\"\ncertificate-authority = \"\"\"\n{}\"\"\"\n\
         [kubelet]\n{kubelet}taints = [\"{TAINT}\"]\n[kubelet.labels]\n\"{}\" = \"{}\"\n",
        plane.token(),
        plane.addressing().name_server,
        plane.ca()?,
        LABEL.0,
        LABEL.1,
    );
    Ok(NodeFile::new(NODE_DOCUMENT, 0o600, text))
}

/// The resource with the same cluster.
pub fn resource(plane: &ControlPlane) -> Result<String> {
    let authority: String = plane.ca()?.lines().map(|line| format!("    {line}\n")).collect();
    Ok(format!(
        "type: ClusterJoin\nid: node\nspec:\n  server: {}\n  token: {}\n  dns: [\"{}\"]\n  \
         domain: {DOMAIN}\n  certificateAuthority: |\n{authority}",
        plane.server(),
        plane.token(),
        plane.addressing().name_server,
    ))
}

/// One archive of all files, so that the kubelet reads none before all are there.
fn archive(files: &[NodeFile]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for NodeFile { path, mode, bytes } in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(*mode);
        header.set_size(bytes.len() as u64);
        archive
            .append_data(&mut header, path.trim_start_matches('/'), bytes.as_slice())
            .or_build(|| format!("cannot pack `{path}`"))?;
    }
    archive.into_inner().or_build(|| "cannot pack the files of the node".to_owned())
}
