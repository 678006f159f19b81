//! The note of an unfinished attempt to make the control plane. kubeadm keeps the certificates and
//! kubeconfigs that it finds, also those of an attempt with a configuration that was wrong.

use std::path::{Path, PathBuf};
use std::{fs, io};

use osbuild_failure::{Explain, Outcome};

use crate::replace::replace;
use crate::role::Role;

/// The configuration with which the unfinished attempt began, below the root.
const NOTE: &str = "control-plane-making";
/// The key that signs the certificates of the API server and of kubeconfigs. It is missing where
/// the owner signs them elsewhere: then kubeadm cannot make them again.
const CLUSTER_KEY: &str = "pki/ca.key";
/// The files that kubeadm signs with that key, as its configuration decides.
const OF_CLUSTER: [&str; 6] = [
    "pki/apiserver.crt",
    "pki/apiserver.key",
    "admin.conf",
    "super-admin.conf",
    "controller-manager.conf",
    "scheduler.conf",
];
/// The kubeconfig of the kubelet, which the kubelet of a further node writes itself.
const OF_KUBELET: &str = "kubelet.conf";
/// The same for etcd.
const ETCD_KEY: &str = "pki/etcd/ca.key";
const OF_ETCD: [&str; 4] =
    ["pki/etcd/server.crt", "pki/etcd/server.key", "pki/etcd/peer.crt", "pki/etcd/peer.key"];

/// Begins an attempt with this configuration below `root`, which is `/etc/kubernetes`. If the
/// attempt before it had another one, it removes what kubeadm would keep of that and can make
/// again. Returns whether it had another one.
///
/// # Errors
/// A file cannot be read, removed or written.
pub fn begin(root: &Path, role: Role, configuration: &str) -> Outcome<bool> {
    let note = root.join(NOTE);
    let before = match fs::read_to_string(&note) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.explain(format_args!("read {}", note.display()))?),
    };
    let is_corrected = before.is_some_and(|before| before != configuration);
    if is_corrected {
        leftovers(root, role).iter().try_for_each(|file| remove(file))?;
    }
    replace(&note, configuration).explain(format_args!("write {}", note.display()))?;
    Ok(is_corrected)
}

/// Ends the attempt: the control plane is made.
///
/// # Errors
/// The note cannot be removed.
pub fn end(root: &Path) -> Outcome {
    remove(&root.join(NOTE))
}

fn leftovers(root: &Path, role: Role) -> Vec<PathBuf> {
    let mut names = Vec::new();
    if root.join(CLUSTER_KEY).exists() {
        names.extend(OF_CLUSTER);
        names.extend(Some(OF_KUBELET).filter(|_| role == Role::First));
    }
    if root.join(ETCD_KEY).exists() {
        names.extend(OF_ETCD);
    }
    names.into_iter().map(|name| root.join(name)).collect()
}

/// Removes a file that may not be there.
fn remove(file: &Path) -> Outcome {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.explain(format_args!("remove {}", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root_with(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        root
    }

    fn exists(root: &tempfile::TempDir, name: &str) -> bool {
        root.path().join(name).exists()
    }

    #[test]
    fn only_an_attempt_with_another_configuration_removes_files() {
        let root =
            root_with(&["pki/ca.key", "pki/ca.crt", "pki/apiserver.crt", "kubelet.conf", "a.conf"]);
        let begin = |text| begin(root.path(), Role::First, text).unwrap();
        assert!(!begin("first"), "nothing is left of an attempt before it");
        assert!(!begin("first"), "a repeated attempt keeps its files");
        assert!(exists(&root, "pki/apiserver.crt"));
        assert!(begin("second"));
        assert!(!exists(&root, "pki/apiserver.crt") && !exists(&root, "kubelet.conf"));
        assert!(exists(&root, "pki/ca.crt") && exists(&root, "a.conf"), "the owner's files stay");
        end(root.path()).unwrap();
        assert!(!exists(&root, NOTE));
    }

    #[test]
    fn files_that_kubeadm_cannot_sign_again_stay() {
        let root = root_with(&["pki/etcd/ca.key", "pki/etcd/peer.crt", "pki/apiserver.crt"]);
        begin(root.path(), Role::First, "first").unwrap();
        begin(root.path(), Role::First, "second").unwrap();
        assert!(exists(&root, "pki/apiserver.crt") && !exists(&root, "pki/etcd/peer.crt"));
    }

    #[test]
    fn a_further_node_keeps_the_kubeconfig_of_its_kubelet() {
        let root = root_with(&["pki/ca.key", "admin.conf", "kubelet.conf"]);
        begin(root.path(), Role::Further, "first").unwrap();
        begin(root.path(), Role::Further, "second").unwrap();
        assert!(exists(&root, "kubelet.conf") && !exists(&root, "admin.conf"));
    }
}
