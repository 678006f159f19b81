//! Grants the nodes of a cluster their reboots, by a policy. It runs as a pod of the cluster.
//!
//! [`osbuild_grants::steps`] decides; here the nodes are read, and its steps are carried out. Each
//! round starts with what the cluster is now, so a step that failed is decided again.

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_grants::annotations::{
    DRAIN_FAILED, DRAINED, DRAINED_FOR, GRANTED, GRANTED_SINCE, SINCE, WAITS,
};
use osbuild_grants::{Node as Asking, Policy, Step, steps};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::api::Api;
use crate::objects::{List, Node, Pod};

/// The pause between two rounds.
const INTERVAL: Duration = Duration::from_secs(10);

/// The nodes of a page of their list.
const PAGE: usize = 500;

/// The label of the nodes of the control plane.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The variable with the uid of this pod, which stays when it drains its own node: nobody else
/// would grant that node its reboot.
const OWN_UID: &str = "POD_UID";

/// Grants reboots by the policy in this file. A changed policy counts from the next round on.
pub async fn grant(policy: &Path) {
    let mut last = String::new();
    loop {
        let line = round(policy).await.err().map(|failure| failure.to_string()).unwrap_or_default();
        if line != last && !line.is_empty() {
            eprintln!("{line}");
        }
        last = line;
        sleep(INTERVAL).await;
    }
}

/// Reads all nodes, and carries out what the policy decides.
async fn round(policy: &Path) -> Outcome {
    let text = fs::read_to_string(policy).explain(format_args!("read {}", policy.display()))?;
    let policy = Policy::parse(&text).explain("read the policy")?;
    let api = Api::of_pod()?;
    let now = Timestamp::now();
    let (mut nodes, mut asking) = (Vec::new(), Vec::new());
    for node in self::nodes(&api).await? {
        asking.push(look(&api, &node, now).await?);
        nodes.push(node.metadata);
    }
    let mut failed = None;
    for (index, step) in steps(&asking, &policy, now.as_second()) {
        let (name, version) = (&nodes[index].name, &nodes[index].resource_version);
        let carried_out = match (&step, changes(&step, &asking[index], now)) {
            (Step::Evict, _) => evict(&api, name).await,
            (_, Some(mut fields)) => {
                // A node that has changed since is decided about again.
                fields["metadata"]["resourceVersion"] = json!(version);
                api.patch::<Node>(&path(name), &fields).await.map(drop)
            }
            (_, None) => Ok(()),
        };
        match carried_out {
            Ok(()) => print(name, &step),
            Err(failure) => failed = Some(Failure::new(format!("{name}: {failure}"))),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// All nodes of the cluster, page by page.
async fn nodes(api: &Api) -> Outcome<Vec<Node>> {
    let (mut nodes, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/nodes?limit={PAGE}&continue={next}");
        let page: List<Node> = api.get(&path).await?;
        nodes.extend(page.items);
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(nodes);
        }
    }
}

/// The node as the policy sees it.
async fn look(api: &Api, node: &Node, now: Timestamp) -> Outcome<Asking> {
    let annotations = &node.metadata.annotations;
    let asking = Asking::parse(&node.metadata.name, now.as_second(), |key| {
        annotations.get(key).map(String::as_str)
    });
    let is_drained = asking.drained_since.is_some() && !asking.is_granted();
    Ok(Asking {
        is_ready: node.is_ready(),
        is_cordoned: node.spec.unschedulable,
        is_control_plane: node.metadata.labels.contains_key(CONTROL_PLANE),
        pods_left: if is_drained { pods(api, &node.metadata.name).await?.len() } else { 0 },
        ..asking
    })
}

/// The pods that have to leave the node.
async fn pods(api: &Api, node: &str) -> Outcome<Vec<Pod>> {
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName={node}");
    let mut pods: List<Pod> = api.get(&path).await?;
    let own = env::var(OWN_UID).unwrap_or_default();
    pods.items.retain(|pod| pod.has_to_leave() && pod.metadata.uid != own);
    Ok(pods.items)
}

/// Has the pods of a node end, as far as their budgets allow it. The others are tried again in the
/// next round.
async fn evict(api: &Api, node: &str) -> Outcome {
    let mut refused = None;
    for pod in pods(api, node).await? {
        let (name, namespace) = (&pod.metadata.name, &pod.metadata.namespace);
        if pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
            // A pod of the same name that has come since is another one.
            "deleteOptions": { "preconditions": { "uid": pod.metadata.uid } },
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        refused = api.create::<Value>(&path, &eviction).await.err().or(refused);
    }
    refused.map_or(Ok(()), Err)
}

/// The fields of the Node that a step changes.
fn changes(step: &Step, node: &Asking, now: Timestamp) -> Option<Value> {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let version = node.request.as_ref().map(|request| &request.version);
    let (annotations, unschedulable) = match step {
        Step::Drain => {
            let begins =
                json!({ DRAINED: now, DRAINED_FOR: version, GRANTED_SINCE: null, WAITS: null });
            (begins, Some(json!(true)))
        }
        Step::Grant => (json!({ GRANTED: version?, GRANTED_SINCE: now }), None),
        Step::NoteGrant => (json!({ GRANTED_SINCE: now }), None),
        Step::NoteRequest => (json!({ SINCE: now }), None),
        Step::GiveUp(why) => {
            let ends = json!({ DRAINED: null, DRAINED_FOR: null, DRAIN_FAILED: now, WAITS: why });
            (ends, Some(Value::Null))
        }
        Step::Stop(why) => {
            let ends = json!({ DRAINED: null, DRAINED_FOR: null, WAITS: why });
            (ends, Some(Value::Null))
        }
        Step::Uncordon | Step::Requeue => {
            (json!({ DRAINED: null, DRAINED_FOR: null, DRAIN_FAILED: null }), Some(Value::Null))
        }
        Step::Explain(why) => (json!({ WAITS: why }), None),
        Step::Evict => return None,
    };
    let mut fields = json!({ "metadata": { "annotations": annotations } });
    if let Some(unschedulable) = unschedulable {
        fields["spec"]["unschedulable"] = unschedulable;
    }
    Some(fields)
}

fn print(node: &str, step: &Step) {
    match step {
        Step::Drain => eprintln!("{node}: is cordoned and drained"),
        Step::Grant => eprintln!("{node}: may reboot"),
        Step::Uncordon => eprintln!("{node}: is back"),
        Step::GiveUp(why) | Step::Stop(why) => eprintln!("{node}: is uncordoned: {why}"),
        Step::Requeue => eprintln!("{node}: is uncordoned: it asks for another release by now"),
        Step::NoteGrant => eprintln!("{node}: may reboot, by another tool"),
        Step::NoteRequest => {
            eprintln!("{node}: asks as of now: the time of its request is malformed or ahead");
        }
        Step::Evict | Step::Explain(_) => {}
    }
}

fn path(node: &str) -> String {
    format!("/api/v1/nodes/{node}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_grants::Request;

    #[test]
    fn only_the_steps_about_a_drain_change_whether_pods_come() {
        let now = "2026-11-25T12:00:00.7Z".parse().unwrap();
        let request = Request { version: "2".to_owned(), since: 0 };
        let node = Asking { request: Some(request), ..Asking::default() };
        let changes = |step| changes(&step, &node, now).unwrap();
        let drain = changes(Step::Drain);
        assert_eq!(drain["spec"]["unschedulable"], json!(true));
        assert_eq!(drain["metadata"]["annotations"][DRAINED], json!("2026-11-25T12:00:00Z"));
        let back = changes(Step::Uncordon);
        assert_eq!(back.pointer("/spec/unschedulable"), Some(&Value::Null));
        assert_eq!(drain["metadata"]["annotations"][DRAINED_FOR], json!("2"));
        let granted = json!({ GRANTED: "2", GRANTED_SINCE: "2026-11-25T12:00:00Z" });
        assert_eq!(changes(Step::Grant), json!({ "metadata": { "annotations": granted } }));
        let dated = json!({ SINCE: "2026-11-25T12:00:00Z" });
        assert_eq!(changes(Step::NoteRequest), json!({ "metadata": { "annotations": dated } }));
    }

    #[test]
    fn a_node_that_is_stopped_has_no_mark_of_a_drain_that_failed() {
        let now = "2026-11-25T12:00:00Z".parse().unwrap();
        let annotations = |step| {
            let mut changes = changes(&step, &Asking::default(), now).unwrap();
            assert_eq!(changes.pointer("/spec/unschedulable"), Some(&Value::Null));
            changes["metadata"]["annotations"].take()
        };
        let stopped = annotations(Step::Stop("2 is stopped".to_owned()));
        assert_eq!((stopped.get(DRAIN_FAILED), &stopped[WAITS]), (None, &json!("2 is stopped")));
        let given_up = annotations(Step::GiveUp("it could not be drained".to_owned()));
        assert_eq!(given_up[DRAIN_FAILED], json!("2026-11-25T12:00:00Z"));
    }

    #[test]
    fn the_policy_of_the_manifest_is_a_policy() {
        let manifest = include_str!("../grantor.yaml");
        let (_, policy) = manifest.split_once("policy.toml: |\n").unwrap();
        let (policy, _) = policy.split_once("\n---").unwrap();
        let policy: String = policy.lines().map(|line| format!("{}\n", line.trim())).collect();
        Policy::parse(&policy).unwrap();
    }
}
