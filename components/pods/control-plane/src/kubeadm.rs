//! kubeadm, which the image carries.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use osbuild_failure::{Explain, Failure, Outcome};

/// The phases that write the files of a control plane below `/etc/kubernetes`, and the kubelet's
/// configuration. Each keeps certificates and keys that are there.
pub const FILES: [&[&str]; 5] = [
    &["init", "phase", "certs", "all"],
    &["init", "phase", "kubeconfig", "all"],
    &["init", "phase", "etcd", "local"],
    &["init", "phase", "control-plane", "all"],
    &["init", "phase", "kubelet-start"],
];

/// The other phases, which wait for the API server and make the cluster's first objects. What the
/// preflight checks look for, such as programs of the host and systemd, this node does not have.
/// The kubelet keeps its rotated certificate itself.
pub const OBJECTS: &[&str] = &[
    "init",
    "--skip-phases=preflight,certs,kubeconfig,etcd,control-plane,kubelet-start,kubelet-finalize,\
     show-join-command",
];

/// kubeadm with a configuration.
pub struct Kubeadm {
    /// The program.
    pub program: PathBuf,
    /// The file with the configuration.
    pub configuration: PathBuf,
}

impl Kubeadm {
    /// Runs kubeadm, whose output goes to this program's.
    ///
    /// # Errors
    /// It cannot be started, or it reports a failure.
    pub fn run(&self, words: &[&str]) -> Outcome {
        let name = || format!("kubeadm {}", words.join(" "));
        eprintln!("runs {}", name());
        let status = Command::new(&self.program)
            .args(words)
            .arg("--config")
            .arg(&self.configuration)
            .stdin(Stdio::null())
            .status()
            .explain(format_args!("start {}", self.program.display()))?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!("{}: {status}", name()))),
        }
    }
}
