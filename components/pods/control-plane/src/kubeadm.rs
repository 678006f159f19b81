//! kubeadm, which the image carries.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use osbuild_failure::{Explain, Failure, Outcome};

/// The phases with which kubeadm makes a control plane. The preflight phase is left out: it checks
/// for programs of the host and systemd, which this node does not have. The kubelet keeps its
/// rotated certificate itself.
pub struct Phases {
    /// They write files below `/etc/kubernetes`. Each keeps certificates and keys that are there.
    pub files: &'static [&'static [&'static str]],
    /// The one after them, which writes the kubelet's configuration.
    pub kubelet: &'static [&'static str],
    /// All others, for which the kubelet must run with that configuration.
    pub rest: &'static [&'static str],
}

/// Those of a cluster's first node. The last ones wait for the API server and make the cluster's
/// first objects.
pub const FIRST: Phases = Phases {
    files: &[
        &["init", "phase", "certs", "all"],
        &["init", "phase", "kubeconfig", "all"],
        &["init", "phase", "etcd", "local"],
        &["init", "phase", "control-plane", "all"],
    ],
    kubelet: &["init", "phase", "kubelet-start"],
    rest: &[
        "init",
        "--skip-phases=preflight,certs,kubeconfig,etcd,control-plane,kubelet-start,\
         kubelet-finalize,show-join-command",
    ],
};

/// Those of a further node. Its API server starts once its etcd is a member of the cluster's, which
/// the last ones see to. `kubelet-wait-bootstrap` reads the kubelet's certificate, which this pod
/// may not: the last phase waits for the Node instead.
pub const FURTHER: Phases = Phases {
    files: &[&["join", "phase", "control-plane-prepare", "all"]],
    kubelet: &["join", "phase", "kubelet-start"],
    rest: &[
        "join",
        "--skip-phases=preflight,control-plane-prepare,kubelet-start,kubelet-wait-bootstrap",
    ],
};

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
