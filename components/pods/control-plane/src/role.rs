//! The role of the node in the control plane, read from kubeadm's configuration.

use std::path::Path;
use std::{fs, io};

use osbuild_failure::{Explain, Failure, Outcome};
use serde_json::Value;

/// The role that the node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The first node of a cluster.
    First,
    /// One more node of the control plane that a cluster has.
    Further,
}

impl Role {
    /// Reads kubeadm's configuration. `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or makes no control plane.
    pub fn read(configuration: &Path) -> Outcome<Option<Role>> {
        match fs::read_to_string(configuration) {
            Ok(text) => Role::of(&text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).explain("read it"),
        }
    }

    /// The role that follows from the kinds of the documents
    /// (`https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/`).
    fn of(text: &str) -> Outcome<Role> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).explain("parse its YAML")?;
        let of_kind = |kind| documents.iter().find(|document| document["kind"] == kind);
        let first = ["InitConfiguration", "ClusterConfiguration"].into_iter().find_map(of_kind);
        match (first, of_kind("JoinConfiguration")) {
            (Some(_), None) => Ok(Role::First),
            (None, Some(join)) if join["controlPlane"].is_object() => Ok(Role::Further),
            (None, Some(_)) => Err(Failure::new(
                "its `JoinConfiguration` has no `controlPlane`: a node that only runs pods joins \
                 with the node document",
            )),
            (None, None) => Err(Failure::new(
                "it has neither an `InitConfiguration` or `ClusterConfiguration` nor a \
                 `JoinConfiguration`",
            )),
            (Some(_), Some(_)) => Err(Failure::new(
                "it has a `JoinConfiguration` and the configuration of a new cluster",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_the_documents_decide() {
        let new = "kind: InitConfiguration\n---\nkind: ClusterConfiguration\n";
        assert_eq!(Role::of(new).unwrap(), Role::First);
        assert_eq!(Role::of("kind: ClusterConfiguration\n").unwrap(), Role::First);
        let further = "kind: JoinConfiguration\ncontrolPlane: {}\n";
        assert_eq!(Role::of(further).unwrap(), Role::Further);
    }

    #[test]
    fn what_makes_no_control_plane_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "neither"),
            ("kind: KubeletConfiguration\n", "neither"),
            ("kind: JoinConfiguration\n", "no `controlPlane`"),
            ("kind: JoinConfiguration\ncontrolPlane: true\n", "no `controlPlane`"),
            (
                "kind: JoinConfiguration\ncontrolPlane: {}\n---\nkind: InitConfiguration\n",
                "the configuration of a new cluster",
            ),
            ("kind: [", "parse its YAML"),
        ] {
            let failure = Role::of(text).unwrap_err().to_string();
            assert!(failure.contains(reason), "{text}: {failure}");
        }
    }

    #[test]
    fn a_node_without_a_configuration_has_no_role() {
        assert_eq!(Role::read(Path::new("/nonexistent/kubeadm.yaml")).unwrap(), None);
    }
}
