//! Changes the control plane on the node to another `ClusterConfiguration`: kubeadm writes its
//! static pods again, and the kubelet restarts those that differ
//! (`https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-reconfigure/`). A sequence
//! that was interrupted is repeated from its start.

use std::path::{Path, PathBuf};
use std::{fs, io};

use osbuild_failure::{Explain, Outcome};

use crate::kubeadm::{CHANGE, Kubeadm};
use crate::setting;

/// The certificate of the API server with its key, whose names the configuration decides. kubeadm
/// keeps those that are there.
const CERTIFICATE: [&str; 2] =
    ["/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/apiserver.key"];
/// The key that signs it. It is missing where the owner signs certificates elsewhere.
const AUTHORITY: &str = "/etc/kubernetes/pki/ca.key";

/// Has kubeadm write everything that follows from its configuration. `wanted` is the configuration
/// of settings that it has: a run of kubeadm ends when settings have another one, as it may wait
/// for an API server that does not start.
///
/// # Errors
/// kubeadm fails or was ended, or a file cannot be renamed.
pub fn change(kubeadm: &Kubeadm, wanted: Option<&str>) -> Outcome {
    let is_wanted = || setting::wanted().as_deref() == wanted;
    CHANGE.files.iter().try_for_each(|words| kubeadm.run(words, &is_wanted))?;
    if Path::new(AUTHORITY).exists() {
        renew_certificate(|| kubeadm.run(CHANGE.certificate, &is_wanted))?;
    }
    kubeadm.run(CHANGE.rest, &is_wanted)
}

/// Moves the certificate out of kubeadm's way, and back if it makes none.
fn renew_certificate(make: impl Fn() -> Outcome) -> Outcome {
    let files =
        CERTIFICATE.map(|file| (PathBuf::from(file), PathBuf::from(file.to_owned() + ".before")));
    for (file, before) in &files {
        rename(file, before)?;
    }
    let made = make();
    for (file, before) in &files {
        match made {
            // No copy of a key stays behind.
            Ok(()) => fs::remove_file(before).or_else(is_gone).explain("remove a certificate")?,
            Err(_) => rename(before, file)?,
        }
    }
    made
}

/// Renames a file that may not be there.
fn rename(from: &Path, to: &Path) -> Outcome {
    let renamed = fs::rename(from, to).or_else(is_gone);
    renamed.explain(format_args!("rename {} to {}", from.display(), to.display()))
}

/// A file that is not there is not an error.
fn is_gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}
