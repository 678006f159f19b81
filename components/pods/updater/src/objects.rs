//! Objects of the Kubernetes API, as far as they are read here.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Annotations by their keys.
pub type Annotations = BTreeMap<String, String>;

/// A page of a list.
#[derive(Deserialize)]
pub struct List<T> {
    /// The objects.
    pub items: Vec<T>,
    /// Where the list goes on.
    #[serde(default)]
    pub metadata: ListMetadata,
}

/// The metadata of a list.
#[derive(Default, Deserialize)]
pub struct ListMetadata {
    /// The parameter for the next page; empty for the last one.
    #[serde(default, rename = "continue")]
    pub next: String,
}

/// The metadata of an object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its identity: another object with the same name has another one.
    pub uid: String,
    /// The version of the object.
    pub resource_version: String,
    /// Its annotations.
    pub annotations: Annotations,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// References to the objects that own it.
    pub owner_references: Vec<Owner>,
    /// Set if it is about to end.
    pub deletion_timestamp: Option<String>,
}

/// A reference to the owner of an object.
#[derive(Deserialize)]
pub struct Owner {
    /// The kind of the owner.
    pub kind: String,
}

/// A `Node`.
#[derive(Deserialize)]
pub struct Node {
    /// Its metadata.
    pub metadata: Metadata,
    /// The desired state of the node.
    #[serde(default)]
    pub spec: NodeSpec,
    /// The observed state of the node.
    #[serde(default)]
    pub status: NodeStatus,
}

/// The desired state of a node.
#[derive(Default, Deserialize)]
pub struct NodeSpec {
    /// Whether it takes no new pods.
    #[serde(default)]
    pub unschedulable: bool,
}

/// The observed state of a node.
#[derive(Default, Deserialize)]
pub struct NodeStatus {
    /// Its conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A condition.
#[derive(Deserialize)]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// A `Pod`.
#[derive(Deserialize)]
pub struct Pod {
    /// Its metadata.
    pub metadata: Metadata,
    /// The observed state of the pod.
    #[serde(default)]
    pub status: PodStatus,
}

/// The observed state of a pod.
#[derive(Default, Deserialize)]
pub struct PodStatus {
    /// `Running`, `Succeeded` and so on.
    #[serde(default)]
    pub phase: String,
}

impl Node {
    /// Whether its kubelet reports it as Ready.
    pub fn is_ready(&self) -> bool {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == "Ready");
        ready.is_some_and(|condition| condition.status == "True")
    }
}

impl Pod {
    /// Whether it has to leave a node that is drained, as `kubectl drain` decides it: pods of the
    /// node's own manifests and of a DaemonSet stay, and those that have ended.
    pub fn has_to_leave(&self) -> bool {
        let is_static = self.metadata.annotations.contains_key("kubernetes.io/config.mirror");
        let owners = &self.metadata.owner_references;
        let is_of_daemon_set = owners.iter().any(|owner| owner.kind == "DaemonSet");
        let has_ended = matches!(self.status.phase.as_str(), "Succeeded" | "Failed");
        !is_static && !is_of_daemon_set && !has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(metadata: Value, phase: &str) -> Pod {
        serde_json::from_value(json!({ "metadata": metadata, "status": { "phase": phase } }))
            .unwrap()
    }

    #[test]
    fn pods_of_the_node_itself_and_those_that_have_ended_may_stay() {
        let owned = |kind: &str| json!({ "name": "a", "ownerReferences": [{ "kind": kind }] });
        assert!(pod(owned("ReplicaSet"), "Running").has_to_leave());
        assert!(pod(json!({ "name": "a" }), "Pending").has_to_leave());
        assert!(!pod(owned("DaemonSet"), "Running").has_to_leave());
        assert!(!pod(owned("Job"), "Succeeded").has_to_leave());
        let mirror = json!({ "annotations": { "kubernetes.io/config.mirror": "x" } });
        assert!(!pod(mirror, "Running").has_to_leave());
    }

    #[test]
    fn the_condition_ready_says_whether_a_node_is() {
        let node = |conditions: Value| -> Node {
            let object = json!({ "metadata": {}, "status": { "conditions": conditions } });
            serde_json::from_value(object).unwrap()
        };
        assert!(node(json!([{ "type": "Ready", "status": "True" }])).is_ready());
        assert!(!node(json!([{ "type": "Ready", "status": "Unknown" }])).is_ready());
        assert!(!node(json!([{ "type": "DiskPressure", "status": "True" }])).is_ready());
        assert!(!node(json!([])).is_ready());
    }
}
