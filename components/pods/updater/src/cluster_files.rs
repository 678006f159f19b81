//! The files that show in which cluster the node is.

use std::path::{Path, PathBuf};

/// Paths on the node. Each may be missing.
#[derive(Clone, Debug, Default)]
pub struct ClusterFiles {
    /// Where the kubelet's kubeconfig may be. The first one that is there counts, as for `init`.
    pub kubeconfigs: Vec<PathBuf>,
    /// Files that are there as long as the node has a cluster to join.
    pub joins: Vec<PathBuf>,
    /// The certificates with which the node was a member of a cluster, links of the kubelet's.
    pub certificates: Vec<PathBuf>,
}

/// Whether the node is in a cluster.
#[derive(Debug, PartialEq, Eq)]
pub enum Membership<'f> {
    /// It is, by this kubeconfig.
    Member(&'f Path),
    /// It was, and joins again: its CA was replaced, or it moves to another cluster. The pods of
    /// before go on, and nobody can be asked.
    Rejoins,
    /// It is not, and no cluster has given it pods.
    None,
}

impl ClusterFiles {
    /// Looks at the files.
    pub fn membership(&self) -> Membership<'_> {
        let is_there = |paths: &[PathBuf]| paths.iter().any(|path| path.exists());
        match self.kubeconfigs.iter().find(|path| path.exists()) {
            Some(kubeconfig) => Membership::Member(kubeconfig),
            None if is_there(&self.joins) && is_there(&self.certificates) => Membership::Rejoins,
            None => Membership::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_in_a_cluster_and_has_one_to_join_joins_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = ClusterFiles {
            kubeconfigs: vec![path("kubeconfig")],
            joins: vec![path("ca")],
            certificates: vec![path("former")],
        };
        assert_eq!(files.membership(), Membership::None);
        std::fs::write(path("ca"), "").unwrap();
        assert_eq!(files.membership(), Membership::None, "it joins for the first time");
        std::fs::write(path("former"), "").unwrap();
        assert_eq!(files.membership(), Membership::Rejoins);
        std::fs::remove_file(path("ca")).unwrap();
        assert_eq!(files.membership(), Membership::None, "it has left its cluster");
        std::fs::write(path("kubeconfig"), "").unwrap();
        assert_eq!(files.membership(), Membership::Member(&path("kubeconfig")));
    }
}
