//! Moves aside entries of the wrong kind that pods have left on DATA where `init`, the kubelet or
//! containerd expects a file or a folder.
//!
//! Each of them would wait for ever for a FIFO, or fail at each boot because of a folder in place
//! of a file. At boot no pod runs yet, so the daemons find what this leaves.

use std::ffi::OsStr;
use std::path::Path;

use osbuild_abi::paths::{
    BOOTSTRAP_KUBECONFIG, DATA_MANIFESTS, EARLIER_BOOTSTRAP_KUBECONFIG, EARLIER_KUBECONFIG,
    KUBECONFIG, KUBELET_CONFIG_DIR, SECCOMP_LINK,
};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use rustix::fs::FileType;

use crate::data;
use crate::host::seccomp_profiles;

/// The folder in which pods write what the kubelet needs to join a cluster.
const KUBERNETES: &str = "/etc/kubernetes";
/// The folder in it with the cluster's CA, and with the keys of a control plane.
const CERTIFICATES: &str = "pki";
/// The folder in which the kubelet keeps its state.
const KUBELET: &str = "/var/lib/kubelet";
/// The folder from which containerd reads the network configuration of pods.
const CNI: &str = "/etc/cni/net.d";

/// Folders that the kubelet or `init` make below [`KUBELET`]. The kubelet exits if one of its own
/// is not a folder.
const OF_THE_KUBELET: [&str; 8] = [
    "checkpoints",
    "device-plugins",
    "pki",
    "plugins",
    "plugins_registry",
    "pod-resources",
    "pods",
    "seccomp",
];

/// Those of them with files that the kubelet reads at its start.
const WITH_FILES: [&str; 3] = ["checkpoints", "device-plugins", "pki"];

/// Files below [`KUBELET`] that `init` itself removes or examines.
const REMOVED: [(&str, &[&str]); 2] = [
    ("", &["cpu_manager_state", "memory_manager_state"]),
    ("pki", &["kubelet.crt", "kubelet.key"]),
];

/// Clears all those folders, and makes those of the kubelet's drop-ins and of the cluster's CA, and
/// the link to the seccomp profiles. Returns the failures.
pub fn clear(data: &Folder) -> Vec<Failure> {
    let done = [clear_for_joining(data), clear_for_kubelet(data), clear_for_cni(data)];
    done.into_iter().filter_map(Outcome::err).collect()
}

/// Clears the configuration of the kubelet on DATA: only regular files stay, not even links to
/// files.
pub fn clear_for_joining(data: &Folder) -> Outcome {
    let kubernetes = data::folder::behind(data, KUBERNETES)?;
    let settings = name(KUBELET_CONFIG_DIR);
    let settings =
        kubernetes.folder(settings, 0o755).explain(format_args!("make {KUBELET_CONFIG_DIR}"))?;
    for file in [KUBECONFIG, BOOTSTRAP_KUBECONFIG, EARLIER_KUBECONFIG, EARLIER_BOOTSTRAP_KUBECONFIG]
    {
        leave(&kubernetes, name(file), &[FileType::RegularFile])
            .explain(format_args!("clear {file}"))?;
    }
    // The kubelet reads its subfolders, too.
    each(&settings, |entry| leave(&settings, entry, &[FileType::RegularFile]))
        .explain(format_args!("clear {KUBELET_CONFIG_DIR}"))?;
    // Its own files are read one by one, and through no link.
    leave(&kubernetes, name(DATA_MANIFESTS), &[FileType::Directory])
        .explain(format_args!("clear {DATA_MANIFESTS}"))?;
    readable(&kubernetes).explain(format_args!("clear {KUBERNETES}"))?;
    let certificates = format!("{KUBERNETES}/{CERTIFICATES}");
    kubernetes
        .folder(CERTIFICATES, 0o755)
        .and_then(|folder| readable(&folder))
        .explain(format_args!("make and clear {certificates}"))
}

fn clear_for_kubelet(data: &Folder) -> Outcome {
    let kubelet = data::folder::behind(data, KUBELET)?;
    let clear = || -> std::io::Result<()> {
        for folder in OF_THE_KUBELET {
            leave(&kubelet, folder, &[FileType::Directory])?;
        }
        seccomp_profiles::link(&kubelet)?;
        readable(&kubelet)?;
        for folder in WITH_FILES {
            if kubelet.kind(folder)?.is_some() {
                readable(&kubelet.existing_folder(folder)?)?;
            }
        }
        for (folder, files) in REMOVED {
            let folder = match folder {
                "" => kubelet.clone(),
                folder if kubelet.kind(folder)?.is_none() => continue,
                folder => kubelet.existing_folder(folder)?,
            };
            files.iter().try_for_each(|file| leave(&folder, file, &[FileType::RegularFile]))?;
        }
        Ok(())
    };
    clear().explain(format_args!("clear {KUBELET}"))
}

/// Makes the link to the seccomp profiles again, if a pod has put something else in its place.
/// Returns whether one had.
pub fn clear_for_profiles(data: &Folder) -> Outcome<bool> {
    let kubelet = data::folder::behind(data, KUBELET)?;
    seccomp_profiles::link(&kubelet).explain(format_args!("make {SECCOMP_LINK}"))
}

fn clear_for_cni(data: &Folder) -> Outcome {
    readable(&data::folder::behind(data, CNI)?).explain(format_args!("clear {CNI}"))
}

/// Moves an entry aside, unless it is missing or of one of these kinds.
fn leave(folder: &Folder, name: impl AsRef<OsStr>, kinds: &[FileType]) -> std::io::Result<()> {
    match folder.kind(&name)? {
        Some(kind) if !kinds.contains(&kind) => folder.move_aside(name),
        _ => Ok(()),
    }
}

/// Leaves in a folder what can be read without waiting: files, folders, sockets, and links that
/// lead to a file or folder.
fn readable(folder: &Folder) -> std::io::Result<()> {
    each(folder, |name| {
        if folder.kind(name)? == Some(FileType::Symlink) {
            let leads_on = folder
                .magic_path()
                .join(name)
                .metadata()
                .is_ok_and(|found| found.is_file() || found.is_dir());
            return if leads_on { Ok(()) } else { folder.move_aside(name) };
        }
        leave(folder, name, &[FileType::RegularFile, FileType::Directory, FileType::Socket])
    })
}

fn each(
    folder: &Folder,
    mut act: impl FnMut(&OsStr) -> std::io::Result<()>,
) -> std::io::Result<()> {
    folder.names()?.iter().try_for_each(|name| act(name))
}

/// The last part of a path.
fn name(path: &str) -> &str {
    Path::new(path).file_name().and_then(OsStr::to_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use rustix::fs::{CWD, mkfifoat};

    /// DATA with its folders.
    fn data() -> (tempfile::TempDir, PathBuf, Folder) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap();
        let data = Folder::open(&path, "aside").unwrap();
        for name in ["kubernetes", "kubelet", "cni-net.d"] {
            data.folder(name, 0o700).unwrap();
        }
        (place, path, data)
    }

    fn fifo(path: impl AsRef<Path>) {
        mkfifoat(CWD, path.as_ref(), 0o600.into()).unwrap();
    }

    fn clears(data: &Folder) {
        assert_eq!(clear(data), []);
    }

    #[test]
    fn a_new_data_gets_the_folders_for_joining_and_nothing_is_moved() {
        let (_place, path, data) = data();
        clears(&data);
        for folder in ["kubelet.conf.d", "pki"] {
            assert!(path.join("kubernetes").join(folder).is_dir(), "{folder}");
        }
        assert_eq!(fs::read_dir(path.join("aside")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_where_the_folder_of_settings_should_be_does_not_end_the_boot() {
        let (_place, path, data) = data();
        fs::write(path.join("kubernetes/kubelet.conf.d"), "in the way").unwrap();
        clears(&data);
        assert!(path.join("kubernetes/kubelet.conf.d").is_dir());
        assert_eq!(fs::read_to_string(path.join("aside/0-kubelet.conf.d")).unwrap(), "in the way");
    }

    #[test]
    fn only_a_folder_is_left_in_the_place_of_that_of_manifests() {
        let (_place, path, data) = data();
        let manifests = path.join("kubernetes/manifests");
        fs::create_dir(&manifests).unwrap();
        fs::write(manifests.join("etcd.yaml"), "kept").unwrap();
        clears(&data);
        assert!(manifests.join("etcd.yaml").is_file());
        fs::rename(&manifests, path.join("kubernetes/others")).unwrap();
        fs::write(&manifests, "in the way").unwrap();
        clears(&data);
        assert!(manifests.symlink_metadata().is_err());
        symlink("others", &manifests).unwrap();
        clears(&data);
        assert!(manifests.symlink_metadata().is_err());
    }

    #[test]
    fn only_files_are_left_of_the_kubelets_configuration() {
        let (_place, path, data) = data();
        let settings = path.join("kubernetes/kubelet.conf.d");
        fs::create_dir_all(settings.join("deeper")).unwrap();
        fifo(settings.join("deeper/10.conf"));
        fifo(settings.join("20.conf"));
        symlink("/proc/kmsg", settings.join("30.conf")).unwrap();
        fs::write(settings.join("40.conf"), "kept").unwrap();
        fifo(path.join("kubernetes/kubelet.conf"));
        symlink("kubelet.conf", path.join("kubernetes/bootstrap-kubelet.conf")).unwrap();
        fifo(path.join("kubernetes/kubeconfig"));
        fs::create_dir(path.join("kubernetes/pki")).unwrap();
        fifo(path.join("kubernetes/pki/ca.crt"));
        clears(&data);
        let left: Vec<_> =
            fs::read_dir(settings).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["40.conf"]);
        for gone in ["kubelet.conf", "bootstrap-kubelet.conf", "kubeconfig", "pki/ca.crt"] {
            let path = path.join("kubernetes").join(gone);
            assert!(path.symlink_metadata().is_err(), "{gone}");
        }
    }

    #[test]
    fn the_kubelets_own_files_stay_and_fifos_are_moved_aside() {
        let (_place, path, data) = data();
        let pki = path.join("kubelet/pki");
        fs::create_dir(&pki).unwrap();
        fs::write(pki.join("kubelet-client-1.pem"), "kept").unwrap();
        symlink("kubelet-client-1.pem", pki.join("kubelet-client-current.pem")).unwrap();
        fs::create_dir_all(pki.join("kubelet.key/deeper")).unwrap();
        fifo(path.join("kubelet/actuated_pods_state"));
        fs::write(path.join("kubelet/plugins"), "in the way").unwrap();
        fs::create_dir(path.join("kubelet/cpu_manager_state")).unwrap();
        clears(&data);
        assert_eq!(fs::read_to_string(pki.join("kubelet-client-current.pem")).unwrap(), "kept");
        for gone in ["pki/kubelet.key", "actuated_pods_state", "plugins", "cpu_manager_state"] {
            assert!(path.join("kubelet").join(gone).symlink_metadata().is_err(), "{gone}");
        }
    }

    #[test]
    fn a_link_in_a_cni_configuration_stays_where_it_leads_to_a_file() {
        let (_place, path, data) = data();
        let cni = path.join("cni-net.d");
        fs::write(cni.join("10-a.conf"), "kept").unwrap();
        symlink("10-a.conf", cni.join("20-b.conf")).unwrap();
        fifo(cni.join("30-c.conf"));
        symlink("30-c.conf", cni.join("40-d.conf")).unwrap();
        symlink("nowhere", cni.join("50-e.conf")).unwrap();
        clears(&data);
        // The FIFO may go before or after the link to it, which dangles then.
        let mut left: Vec<_> =
            fs::read_dir(cni).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["10-a.conf", "20-b.conf"]);
    }
}
