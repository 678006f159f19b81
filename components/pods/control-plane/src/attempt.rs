//! An unfinished attempt to make the control plane, and the note of it on DATA. kubeadm keeps the
//! certificates and kubeconfigs that it finds, also those of an attempt with a configuration that
//! was wrong.

use std::path::Path;
use std::{fs, io};

use osbuild_failure::{Explain, Outcome};
use serde::{Deserialize, Serialize};

use crate::replace::replace;
use crate::role::Role;

/// The note of the unfinished attempt, below the root.
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
/// The static pods. The kubelet makes an empty file in the place of a kubeconfig that one of them
/// mounts, so they go before those.
const STATIC_PODS: [&str; 4] = [
    "manifests/etcd.yaml",
    "manifests/kube-apiserver.yaml",
    "manifests/kube-controller-manager.yaml",
    "manifests/kube-scheduler.yaml",
];
/// The key that signs the certificates of etcd.
const ETCD_KEY: &str = "pki/etcd/ca.key";
/// The files that kubeadm signs with that key, as its configuration decides.
const OF_ETCD: [&str; 4] =
    ["pki/etcd/server.crt", "pki/etcd/server.key", "pki/etcd/peer.crt", "pki/etcd/peer.key"];

/// The note.
#[derive(Debug, Deserialize, Serialize)]
struct Note {
    /// The configuration with which the attempt began.
    configuration: String,
    /// The files that the first attempt found: they are the owner's.
    owned: Vec<String>,
}

/// Begins an attempt with this configuration below `root`, which is `/etc/kubernetes`. If the
/// attempt before it had another one, removes the files of that one, which kubeadm makes again.
/// Empty ones go in any case: kubeadm refuses them. Returns whether it had another configuration.
///
/// # Errors
/// A file cannot be read, removed or written.
pub fn begin(root: &Path, role: Role, configuration: &str) -> Outcome<bool> {
    let note = root.join(NOTE);
    let before = match fs::read_to_string(&note) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.explain(format_args!("read {}", note.display()))?),
    };
    // With a damaged note, as without one, all files may be the owner's.
    let before = before.and_then(|text| serde_json::from_str::<Note>(&text).ok());
    let is_corrected = before.as_ref().is_some_and(|before| before.configuration != configuration);
    let owned = match before {
        Some(before) => before.owned,
        None => {
            let is_owned = |name: &&str| {
                let file = root.join(name);
                file.exists() && !is_empty(&file)
            };
            made(root, role).filter(is_owned).map(Into::into).collect()
        }
    };
    let made = made(root, role).filter(|name| !owned.iter().any(|owned| owned == name));
    let mut files = made.map(|name| root.join(name)).filter(|file| is_corrected || is_empty(file));
    files.try_for_each(|file| remove(&file))?;
    let text = serde_json::to_string(&Note { configuration: configuration.to_owned(), owned })
        .explain("encode the note of an attempt")?;
    replace(&note, &text).explain(format_args!("write {}", note.display()))?;
    Ok(is_corrected)
}

/// Ends the attempt: the control plane is made.
///
/// # Errors
/// The note cannot be removed.
pub fn end(root: &Path) -> Outcome {
    remove(&root.join(NOTE))
}

/// The names of the files that kubeadm can make again on this node.
fn made(root: &Path, role: Role) -> impl Iterator<Item = &'static str> {
    let of_kubelet = Some(OF_KUBELET).filter(|_| role == Role::First);
    let of_cluster = OF_CLUSTER.into_iter().chain(of_kubelet);
    let has = |key: &str| root.join(key).exists();
    let of_cluster = Some(of_cluster).filter(|_| has(CLUSTER_KEY)).into_iter().flatten();
    let of_etcd = Some(OF_ETCD).filter(|_| has(ETCD_KEY)).into_iter().flatten();
    STATIC_PODS.into_iter().chain(of_cluster).chain(of_etcd)
}

/// Whether this is an empty file: one that the kubelet has made, or that a power cut has left.
fn is_empty(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|about| about.len() == 0)
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
            fs::write(file, "of the owner").unwrap();
        }
        root
    }

    fn exists(root: &tempfile::TempDir, name: &str) -> bool {
        root.path().join(name).exists()
    }

    #[test]
    fn only_an_attempt_with_another_configuration_removes_files() {
        let root = root_with(&["pki/ca.key", "pki/ca.crt", "admin.conf", "a.conf"]);
        let begin = |text| begin(root.path(), Role::First, text).unwrap();
        let signs = || {
            for file in ["pki/apiserver.crt", "kubelet.conf"] {
                fs::write(root.path().join(file), "signed").unwrap();
            }
        };
        assert!(!begin("first"), "nothing is left of an attempt before it");
        signs();
        assert!(!begin("first"), "a repeated attempt keeps its files");
        assert!(exists(&root, "pki/apiserver.crt"));
        for corrected in ["second", "third"] {
            assert!(begin(corrected));
            assert!(!exists(&root, "pki/apiserver.crt") && !exists(&root, "kubelet.conf"));
            signs();
        }
        fs::write(root.path().join("scheduler.conf"), "").unwrap();
        assert!(!begin("third"));
        assert!(!exists(&root, "scheduler.conf"), "kubeadm would refuse the kubelet's empty file");
        for of_owner in ["pki/ca.crt", "admin.conf", "a.conf"] {
            assert!(exists(&root, of_owner), "{of_owner}");
        }
        end(root.path()).unwrap();
        assert!(!exists(&root, NOTE));
    }

    /// A node with this key, whose first attempt has made these files, in its second one.
    fn corrected(role: Role, key: &str, made: [&str; 2]) -> tempfile::TempDir {
        let root = root_with(&[key]);
        begin(root.path(), role, "first").unwrap();
        for file in made {
            fs::write(root.path().join(file), "made").unwrap();
        }
        begin(root.path(), role, "second").unwrap();
        root
    }

    #[test]
    fn files_that_kubeadm_cannot_sign_again_stay() {
        let made = ["pki/etcd/peer.crt", "pki/apiserver.crt"];
        let root = corrected(Role::First, "pki/etcd/ca.key", made);
        assert!(exists(&root, "pki/apiserver.crt") && !exists(&root, "pki/etcd/peer.crt"));
    }

    #[test]
    fn a_further_node_keeps_the_kubeconfig_of_its_kubelet() {
        let root = corrected(Role::Further, "pki/ca.key", ["admin.conf", "kubelet.conf"]);
        assert!(exists(&root, "kubelet.conf") && !exists(&root, "admin.conf"));
    }

    #[test]
    fn a_damaged_note_makes_all_files_the_owners() {
        let root = corrected(Role::First, "pki/ca.key", ["admin.conf", "kubelet.conf"]);
        fs::write(root.path().join(NOTE), "{").unwrap();
        fs::write(root.path().join("admin.conf"), "of the owner").unwrap();
        // The kubelet makes it for a static pod, and kubeadm refuses it.
        fs::write(root.path().join("scheduler.conf"), "").unwrap();
        for configuration in ["third", "fourth"] {
            begin(root.path(), Role::First, configuration).unwrap();
            assert!(exists(&root, "admin.conf") && !exists(&root, "scheduler.conf"));
        }
    }
}
