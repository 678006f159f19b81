//! Makes the control plane: kubeadm's files, a kubelet that uses them, and what needs that kubelet.
//! A sequence that was interrupted is repeated from its start, and finds what is there.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::paths;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{Client, Request};

use crate::attempt;
use crate::kubeadm::{FIRST, FURTHER, Kubeadm};
use crate::kubelet_settings::drop_in;
use crate::replace::replace;
use crate::role::Role;

/// The folder of kubeadm's files.
const KUBERNETES: &str = "/etc/kubernetes";
/// The file that the process locks which makes the control plane.
const LOCK: &str = "/etc/kubernetes/control-plane.lock";
/// The kubelet's configuration that kubeadm writes.
const KUBELET_CONFIGURATION: &str = "/var/lib/kubelet/config.yaml";
/// The name of the drop-in. Those of the owner override it if their names are higher.
const DROP_IN: &str = "10-kubeadm.conf";
/// How long `init` may take to restart the kubelet.
const TIMEOUT: Duration = Duration::from_secs(180);
const RESTART: Request = Request::RestartKubelet;

/// The steps that this process has done. An earlier process may not have restarted the kubelet.
#[derive(Default)]
pub struct Progress {
    /// Whether the kubelet has been restarted. Another restart would only interrupt the pulls of
    /// the control plane's images.
    kubelet_restarted: bool,
}

/// Waits until no other process makes the control plane. When the kubelet starts again with another
/// name of the node, the pod of the earlier name runs on until that of the new one does, and longer
/// while the kubelet has no API server.
///
/// # Errors
/// The file cannot be locked.
pub fn alone() -> Outcome<File> {
    let locked = File::create(LOCK).and_then(|file| file.lock().map(|()| file));
    locked.explain(format_args!("lock {LOCK}"))
}

/// Makes the control plane. A run of kubeadm ends once its configuration `is_wanted` no longer, as
/// it may wait for an API server that does not start.
///
/// # Errors
/// kubeadm fails or was ended, a file cannot be written, or `init` does not restart the kubelet.
pub fn make(
    kubeadm: &Kubeadm,
    role: Role,
    is_wanted: &dyn Fn() -> bool,
    progress: &mut Progress,
) -> Outcome {
    let text = fs::read_to_string(&kubeadm.configuration)
        .explain(format_args!("read {}", kubeadm.configuration.display()))?;
    let is_corrected = attempt::begin(Path::new(KUBERNETES), role, &text)?;
    if is_corrected {
        progress.kubelet_restarted = false;
    }
    let phases = match role {
        Role::First => FIRST,
        Role::Further => FURTHER,
    };
    phases.files.iter().try_for_each(|words| kubeadm.run(words, is_wanted))?;
    if !is_kubelet_configured(role) {
        kubeadm.run(phases.kubelet, is_wanted)?;
        configure_kubelet()?;
        if !progress.kubelet_restarted {
            restart_kubelet()?;
            progress.kubelet_restarted = true;
        }
    }
    kubeadm.run(phases.rest, is_wanted)?;
    forget_token()?;
    attempt::end(Path::new(KUBERNETES))
}

/// Whether the kubelet of a further node has started with kubeadm's configuration: it has written
/// its kubeconfig. kubeadm refuses to configure the kubelet of a Node that is Ready.
fn is_kubelet_configured(role: Role) -> bool {
    role == Role::Further && Path::new(paths::KUBECONFIG).exists()
}

/// Removes the kubeconfig with the token, which the kubelet of a further node does not need any
/// more: it has its certificate.
fn forget_token() -> Outcome {
    match fs::remove_file(paths::BOOTSTRAP_KUBECONFIG) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).explain(format_args!("remove {}", paths::BOOTSTRAP_KUBECONFIG))
        }
        _ => Ok(()),
    }
}

/// Turns kubeadm's configuration of the kubelet into a drop-in.
fn configure_kubelet() -> Outcome {
    let text = fs::read_to_string(KUBELET_CONFIGURATION)
        .explain(format_args!("read {KUBELET_CONFIGURATION}"))?;
    let folder = Path::new(paths::KUBELET_CONFIG_DIR);
    fs::create_dir_all(folder).explain(format_args!("make {}", folder.display()))?;
    let file = folder.join(DROP_IN);
    replace(&file, &drop_in(&text)?).explain(format_args!("write {}", file.display()))
}

/// Has `init` start the kubelet again: it joins the cluster with the kubeconfig of kubeadm.
fn restart_kubelet() -> Outcome {
    let restart = || Client::connect(Path::new(paths::ADMIN_SOCKET), TIMEOUT)?.send(&RESTART);
    restart().explain("have init restart the kubelet")
}
