//! The files with which the kubelet joins a cluster.

use std::path::Path;

use osbuild_abi::paths::{
    BOOTSTRAP_KUBECONFIG, CLIENT_CA, EARLIER_BOOTSTRAP_KUBECONFIG, EARLIER_CLIENT_CA,
    EARLIER_KUBECONFIG, KUBECONFIG,
};

/// The bootstrap kubeconfig that `init kubelet-config` makes from the node document.
pub const DOCUMENT_BOOTSTRAP: &str = "/run/osbuild/kubelet/bootstrap-kubelet.conf";
/// The CA certificates from the node document.
pub const DOCUMENT_CA: &str = "/run/osbuild/kubelet/ca.crt";

/// The paths at which each file may be, the first one that exists counts.
const BOOTSTRAPS: [&str; 3] =
    [DOCUMENT_BOOTSTRAP, BOOTSTRAP_KUBECONFIG, EARLIER_BOOTSTRAP_KUBECONFIG];
const KUBECONFIGS: [&str; 2] = [KUBECONFIG, EARLIER_KUBECONFIG];
const CLIENT_CAS: [&str; 3] = [DOCUMENT_CA, CLIENT_CA, EARLIER_CLIENT_CA];

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
        let first = |paths: &[&'static str]| paths.iter().copied().find(|path| exists(path));
        let (kubeconfig, bootstrap) = (first(&KUBECONFIGS), first(&BOOTSTRAPS));
        // Both slots of a node that an earlier release has prepared find the file there.
        let new = match bootstrap {
            Some(EARLIER_BOOTSTRAP_KUBECONFIG) => EARLIER_KUBECONFIG,
            _ => KUBECONFIG,
        };
        let exist = kubeconfig.is_some() || bootstrap.is_some();
        exist.then(|| Credentials { kubeconfig: kubeconfig.unwrap_or(new), bootstrap })
    }
}

/// The path of the kubeconfig, which may be missing.
pub fn kubeconfig() -> &'static str {
    Credentials::observe().map_or(KUBECONFIG, |credentials| credentials.kubeconfig)
}

/// The path of the CA certificates for the cluster's clients, if they are there.
pub fn client_ca() -> Option<&'static str> {
    CLIENT_CAS.into_iter().find(|path| Path::new(path).is_file())
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str]) -> Option<(&'static str, Option<&'static str>)> {
        let found = Credentials::of(|path| files.contains(&path))?;
        Some((found.kubeconfig, found.bootstrap))
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
    fn the_node_document_counts_before_a_bootstrap_file() {
        let files = [BOOTSTRAP_KUBECONFIG, DOCUMENT_BOOTSTRAP];
        assert_eq!(of(&files), Some((KUBECONFIG, Some(DOCUMENT_BOOTSTRAP))));
    }
}
