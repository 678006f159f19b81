//! Labels of the registered node, which `init cluster` changes with the node's own credentials, and
//! its taints, which it only reads (NodeRestriction).

use std::collections::BTreeMap;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_kubeconfig::Kubeconfig;
use osbuild_protocol::{NodeLabel, NodeTaint, Setting, SettingName};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::api_server::{Method, Server};
use crate::api_response::object;
use crate::host::registration::node_object::Found;

/// The two requests, as failures name them.
const READ: &str = "read the node's object";
const CHANGE: &str = "change the node's labels";

/// The requested changes of the node's labels. All other labels keep their values.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// The value of each label; `None` removes the label.
    changes: BTreeMap<String, Option<String>>,
}

impl Labels {
    /// Reads the arguments of the child: a label with its value, or its name alone.
    pub fn parse(lines: &[&str]) -> Outcome<Labels> {
        let mut changes = BTreeMap::new();
        for line in lines {
            match (Setting::parse(line), SettingName::parse(line)) {
                (Ok(Setting::NodeLabel(NodeLabel { key, value })), _) => {
                    changes.insert(key.to_string(), Some(value.as_str().to_owned()));
                }
                (_, Ok(SettingName::NodeLabel(key))) => {
                    changes.insert(key.to_string(), None);
                }
                _ => return Err(Failure::new(format!("`{line}` is not a label"))),
            }
        }
        Ok(Labels { changes })
    }

    /// The merge patch (RFC 7396) for a node with these labels; none if it has those already.
    fn patch(&self, present: &BTreeMap<String, String>) -> Option<Value> {
        let differs =
            |(key, value): &(&String, &Option<String>)| present.get(*key) != value.as_ref();
        let differing = self.changes.iter().filter(differs);
        let labels: Map<String, Value> =
            differing.map(|(key, value)| (key.clone(), json!(value))).collect();
        (!labels.is_empty()).then(|| json!({ "metadata": { "labels": labels } }))
    }
}

#[derive(Deserialize)]
struct Node {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default)]
    taints: Vec<Taint>,
}

#[derive(Deserialize)]
struct Taint {
    key: String,
    #[serde(default)]
    value: String,
    effect: String,
}

/// Gives the node its labels, once. Reports a failure in [`Found::error`].
pub fn settle(config: &Kubeconfig, node_name: &str, labels: &Labels) -> Found {
    let mut found = Found::default();
    if let Err(failure) = try_settle(config, node_name, labels, &mut found) {
        found.error = failure.to_string();
    }
    found
}

fn try_settle(config: &Kubeconfig, node_name: &str, labels: &Labels, found: &mut Found) -> Outcome {
    let server = Server::parse(config.server().unwrap_or_default())?;
    let path = server.node(node_name);
    let response = server.ask(config, &Method::Get, &path).explain(READ)?;
    let node = parse(&response, READ)?;
    *found = found_of(&node);
    let Some(patch) = labels.patch(&node.metadata.labels) else { return Ok(()) };
    let method = Method::MergePatch(patch.to_string());
    let response = server.ask(config, &method, &path).explain(CHANGE)?;
    *found = found_of(&parse(&response, CHANGE)?);
    Ok(())
}

/// The labels and taints of the node in a response.
///
/// # Errors
/// The response has no object.
pub fn found(response: &[u8]) -> Outcome<Found> {
    parse(response, READ).map(|node| found_of(&node))
}

/// The labels and taints of an object.
///
/// # Errors
/// It is not the object of a node.
pub fn found_in(object: Value) -> Outcome<Found> {
    serde_json::from_value(object).explain(READ).map(|node| found_of(&node))
}

/// Reads the response to `request`, which has the node's object.
fn parse(response: &[u8], request: &str) -> Outcome<Node> {
    object(response).explain(request)
}

/// The labels and taints of which `init` knows the form.
fn found_of(node: &Node) -> Found {
    let labels = node.metadata.labels.iter();
    let labels = labels.filter_map(|(key, value)| NodeLabel::parse(key, value).ok());
    let taints = node.spec.taints.iter();
    let taints = taints.filter_map(|one| NodeTaint::new(&one.key, &one.value, &one.effect).ok());
    let settings = labels.map(Setting::NodeLabel).chain(taints.map(Setting::NodeTaint));
    let settings = settings.map(|setting| (setting.name(), setting.value())).collect();
    Found { settings, error: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = r#"{
        "metadata": { "name": "node-1", "labels": {
            "example.org/rack": "7", "edge": "", "node-role.kubernetes.io/worker": "" } },
        "spec": { "taints": [
            { "key": "dedicated", "value": "database", "effect": "NoSchedule" },
            { "key": "node.kubernetes.io/not-ready", "effect": "NoExecute" } ] }
    }"#;

    fn response(status: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.0 {status}\r\nA: b\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn what_differs_alone_is_in_the_patch() {
        let node = parse(&response("200 OK", NODE), READ).unwrap();
        let patch = |lines: &[&str]| Labels::parse(lines).unwrap().patch(&node.metadata.labels);
        for lines in [&[][..], &["node-label example.org/rack 7", "node-label edge -"]] {
            assert_eq!(patch(lines), None);
        }
        assert_eq!(patch(&["node-label absent"]), None);
        assert_eq!(
            patch(&["node-label example.org/rack 8", "node-label edge", "node-label new -"]),
            Some(json!({
                "metadata": { "labels": { "example.org/rack": "8", "edge": null, "new": "" } }
            }))
        );
        for line in ["", "rack=7", "node-label kubernetes.io/a b", "node-taint a:NoSchedule -"] {
            assert!(Labels::parse(&[line]).is_err(), "{line}");
        }
    }

    #[test]
    fn the_node_has_labels_and_taints() {
        let found = found_of(&parse(&response("200 OK", NODE), READ).unwrap());
        assert_eq!(
            found.text(),
            "node-label edge -\nnode-label example.org/rack 7\n\
             node-taint dedicated:NoSchedule database\n\
             node-taint node.kubernetes.io/not-ready:NoExecute -\n"
        );
    }

    #[test]
    fn a_refusal_has_the_reason_of_the_api_server() {
        let body = r#"{"kind": "Status", "message": "is not allowed to modify labels: a"}"#;
        for (status, body, reason) in [
            (
                "403 Forbidden",
                body,
                "change the node's labels: the API server refuses: is not allowed to modify \
                 labels: a",
            ),
            ("502 Bad Gateway", "<html>", "it answers `HTTP/1.0 502 Bad Gateway`"),
            ("200 OK", "no JSON", "change the node's labels: "),
        ] {
            let failure = parse(&response(status, body), CHANGE).err().unwrap().to_string();
            assert!(failure.contains(reason), "{failure}");
        }
        assert!(parse(b"", READ).is_err());
    }
}
