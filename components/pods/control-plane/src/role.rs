//! The role of the node in the control plane.

use osbuild_failure::{Failure, Outcome};
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
    /// The role that follows from the kinds of kubeadm's objects
    /// (`https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/`). The
    /// `ClusterConfiguration` of settings, which all nodes of a control plane have, counts only
    /// without a `JoinConfiguration`.
    ///
    /// # Errors
    /// They make no control plane.
    pub fn of(file: &[Value], has_setting: bool) -> Outcome<Role> {
        let of_kind = |kind| file.iter().find(|object| object["kind"] == kind);
        let is_new = ["InitConfiguration", "ClusterConfiguration"]
            .into_iter()
            .any(|kind| of_kind(kind).is_some());
        match (is_new, of_kind("JoinConfiguration")) {
            (true, None) => Ok(Role::First),
            (false, None) if has_setting => Ok(Role::First),
            (false, Some(join)) if join["controlPlane"].is_object() => Ok(Role::Further),
            (false, Some(_)) => Err(Failure::new(
                "its `JoinConfiguration` has no `controlPlane`: a node that only runs pods joins \
                 with the node document",
            )),
            (false, None) => Err(Failure::new(
                "it has neither an `InitConfiguration` or `ClusterConfiguration` nor a \
                 `JoinConfiguration`",
            )),
            (true, Some(_)) => Err(Failure::new(
                "it has a `JoinConfiguration` and the configuration of a new cluster",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(text: &str, has_setting: bool) -> Outcome<Role> {
        let file: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        Role::of(&file, has_setting)
    }

    #[test]
    fn the_kinds_of_the_objects_decide() {
        let new = "kind: InitConfiguration\n---\nkind: ClusterConfiguration\n";
        assert_eq!(role(new, false).unwrap(), Role::First);
        assert_eq!(role("kind: ClusterConfiguration\n", false).unwrap(), Role::First);
        let further = "kind: JoinConfiguration\ncontrolPlane: {}\n";
        assert_eq!(role(further, false).unwrap(), Role::Further);
        assert_eq!(role(further, true).unwrap(), Role::Further);
        assert_eq!(role("", true).unwrap(), Role::First);
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
        ] {
            let failure = role(text, false).unwrap_err().to_string();
            assert!(failure.contains(reason), "{text}: {failure}");
        }
    }
}
