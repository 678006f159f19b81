//! The files with which the kubelet joins a cluster.

use std::path::Path;

use osbuild_abi::paths::{
    BOOTSTRAP_KUBECONFIG, CLIENT_CA, EARLIER_BOOTSTRAP_KUBECONFIG, EARLIER_CLIENT_CA,
    EARLIER_KUBECONFIG, JOIN_BOOTSTRAP, JOIN_CA, JOIN_KUBECONFIG, KUBECONFIG,
};

/// The files of each origin: settings, kubeadm's names, and those of an earlier release.
/// The first origin with one of the two kubeconfig files counts.
const ORIGINS: [Files; 3] = [
    Files { kubeconfig: JOIN_KUBECONFIG, bootstrap: JOIN_BOOTSTRAP, ca: JOIN_CA },
    Files { kubeconfig: KUBECONFIG, bootstrap: BOOTSTRAP_KUBECONFIG, ca: CLIENT_CA },
    Files {
        kubeconfig: EARLIER_KUBECONFIG,
        bootstrap: EARLIER_BOOTSTRAP_KUBECONFIG,
        ca: EARLIER_CLIENT_CA,
    },
];

struct Files {
    kubeconfig: &'static str,
    bootstrap: &'static str,
    ca: &'static str,
}

/// The paths of a kubelet that joins a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The kubeconfig. With a bootstrap kubeconfig the kubelet writes it, and uses it afterwards.
    pub kubeconfig: &'static str,
    /// The bootstrap kubeconfig, if there is one.
    pub bootstrap: Option<&'static str>,
}

impl Credentials {
    /// The files that are there; none on a node that joins no cluster.
    pub fn observe() -> Option<Self> {
        Self::of(exists)
    }

    fn of(exists: impl Fn(&str) -> bool) -> Option<Self> {
        ORIGINS.into_iter().find_map(|Files { kubeconfig, bootstrap, .. }| {
            let bootstrap = Some(bootstrap).filter(|path| exists(path));
            let can_join = bootstrap.is_some() || exists(kubeconfig);
            can_join.then_some(Credentials { kubeconfig, bootstrap })
        })
    }
}

/// The path of the kubeconfig, which may be missing.
pub fn kubeconfig() -> &'static str {
    Credentials::observe().map_or(KUBECONFIG, |credentials| credentials.kubeconfig)
}

/// The path of the CA certificates for the cluster's clients, if they are there.
pub fn client_ca() -> Option<&'static str> {
    ORIGINS.into_iter().map(|files| files.ca).find(|path| Path::new(path).is_file())
}

/// Whether there is such a regular file. A link may lead to a server that does not answer.
fn exists(path: &str) -> bool {
    Path::new(path).symlink_metadata().is_ok_and(|found| found.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str]) -> Option<(&'static str, Option<&'static str>)> {
        let found = Credentials::of(|path| files.contains(&path))?;
        Some((found.kubeconfig, found.bootstrap))
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["kubelet.conf", "link"].map(|name| folder.path().join(name));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(exists(file.to_str().unwrap()) && !exists(link.to_str().unwrap()));
        assert!(!exists(folder.path().to_str().unwrap()));
    }

    #[test]
    fn a_node_without_files_joins_nothing() {
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_files_have_kubeadms_names() {
        assert_eq!(of(&[KUBECONFIG]), Some((KUBECONFIG, None)));
        assert_eq!(of(&[BOOTSTRAP_KUBECONFIG]), Some((KUBECONFIG, Some(BOOTSTRAP_KUBECONFIG))));
    }

    #[test]
    fn the_names_of_an_earlier_release_stay_valid() {
        assert_eq!(of(&[EARLIER_KUBECONFIG]), Some((EARLIER_KUBECONFIG, None)));
        let bootstrap = Some(EARLIER_BOOTSTRAP_KUBECONFIG);
        assert_eq!(of(&[EARLIER_BOOTSTRAP_KUBECONFIG]), Some((EARLIER_KUBECONFIG, bootstrap)));
        let both = [EARLIER_KUBECONFIG, EARLIER_BOOTSTRAP_KUBECONFIG];
        assert_eq!(of(&both), Some((EARLIER_KUBECONFIG, bootstrap)));
    }

    #[test]
    fn a_cluster_of_settings_counts_before_files() {
        let files = [KUBECONFIG, BOOTSTRAP_KUBECONFIG, JOIN_BOOTSTRAP];
        assert_eq!(of(&files), Some((JOIN_KUBECONFIG, Some(JOIN_BOOTSTRAP))));
        assert_eq!(of(&[KUBECONFIG, JOIN_KUBECONFIG]), Some((JOIN_KUBECONFIG, None)));
    }
}
