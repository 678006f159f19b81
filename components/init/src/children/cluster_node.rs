//! The node's object, as the API server has it. A node asks with the kubelet's own credentials,
//! which may read that (Node authorizer).

use std::path::Path;
use std::time::SystemTime;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_kubeconfig::Kubeconfig;
use serde::{Deserialize, Serialize};
use x509_cert::time::Time;

use super::api_server::{Method, Server};
use super::{client_certificate, node_labels};
use crate::api_response::{object, split};
use crate::daemons::credentials;
use crate::host::registration::node_object::Found;

/// The kernel's identifier of this boot, which the kubelet reports as `bootID`.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Any version will do, so a large cluster answers from the memory of its API server.
const FROM_CACHE: &str = "?resourceVersion=0";

/// The response to a request for the node's object.
pub struct ClusterNode {
    config: Kubeconfig,
    response: Vec<u8>,
    /// The end of the validity of the client certificate, if there is one.
    end: Option<Time>,
}

impl ClusterNode {
    /// Asks the API server that the kubelet's kubeconfig names.
    ///
    /// # Errors
    /// The reason why that does not answer.
    pub fn get(node_name: &str) -> Outcome<ClusterNode> {
        let config = Kubeconfig::read(Path::new(credentials::kubeconfig()))?
            .ok_or_else(|| Failure::new("the kubelet has no kubeconfig yet"))?;
        let server = Server::parse(config.server().unwrap_or_default())?;
        let path = server.node(node_name) + FROM_CACHE;
        let response = server
            .ask(&config, &Method::Get, &path)
            .explain(format_args!("ask {}", server.authority()))?;
        // An API server that cannot be reached is reported first: a certificate comes from it.
        let end = match config.client_certificate()? {
            Some(chain) => Some(client_certificate::end(&chain)?),
            None if config.token()?.is_some() => None,
            None => return Err(Failure::new("the kubelet has no certificate yet")),
        };
        Ok(ClusterNode { config, response, end })
    }

    /// The kubeconfig with which it was asked.
    pub fn config(&self) -> &Kubeconfig {
        &self.config
    }

    /// Whether the API server reports the node as Ready.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn is_ready(&self) -> Outcome {
        if let Some(end) = self.end.filter(|end| end.to_system_time() < SystemTime::now()) {
            return Err(expired(end));
        }
        let boot_id = std::fs::read_to_string(BOOT_ID).explain(format_args!("read {BOOT_ID}"))?;
        is_ready(&self.response, boot_id.trim(), self.end)
    }

    /// Its labels and taints.
    ///
    /// # Errors
    /// The response has no object.
    pub fn labels_and_taints(&self) -> Outcome<Found> {
        node_labels::found(&self.response)
    }

    /// Its conditions.
    ///
    /// # Errors
    /// The response has no object.
    pub fn conditions(&self) -> Outcome<Vec<Condition>> {
        Ok(object::<Node>(&self.response)?.status.conditions)
    }
}

/// The kubelet does not use a certificate that has expired by the node's clock, whether or not the
/// API server's clock agrees.
fn expired(end: Time) -> Failure {
    Failure::new(format!(
        "the node's certificate has expired by the node's clock: it was valid until {end}"
    ))
}

/// The reason why the node is not ready after a response with status 401. It includes the end of
/// the client certificate's validity, if there is a certificate, for the node's owner to check.
fn unauthorized(end: Option<Time>) -> Failure {
    match end {
        Some(end) => Failure::new(format!(
            "the API server does not accept the node's certificate, which is valid until {end}"
        )),
        None => Failure::new("the API server does not accept the node's credentials"),
    }
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
struct NodeInfo {
    #[serde(default, rename = "bootID")]
    boot_id: String,
}

/// A condition of a node (`NodeCondition` of Kubernetes). Times are as RFC 3339 has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Its name, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason for the status: one word.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// When it was reported last.
    pub last_heartbeat_time: String,
    /// When its status changed last.
    pub last_transition_time: String,
}

/// Reads the response to a request for the node's object. Until the kubelet has reported the status
/// of this boot, the object has that of an earlier one, which says nothing. `end` is that of the
/// client certificate with which the request was made.
fn is_ready(response: &[u8], boot_id: &str, end: Option<Time>) -> Outcome {
    let (head, body) = split(response);
    match head.split_ascii_whitespace().nth(1) {
        Some("200") => {}
        Some("401") => return Err(unauthorized(end)),
        Some("404") => return Err(Failure::new("the cluster has no Node object for it yet")),
        Some(_) => {
            let status = head.lines().next().unwrap_or_default();
            return Err(Failure::new(format!("the API server answers `{status}`")));
        }
        None => return Err(Failure::new("the API server's response is not HTTP")),
    }
    let node: Node = serde_json::from_slice(body).explain("read the node's object")?;
    let is_current = node.status.node_info.boot_id == boot_id;
    let ready = node.status.conditions.into_iter().find(|condition| condition.kind == "Ready");
    match ready.filter(|_| is_current) {
        Some(condition) if condition.status == "True" => Ok(()),
        Some(condition) => Err(Failure::new(condition.message)),
        None => Err(Failure::new("the kubelet has not reported its status yet")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_cert::der::DateTime;
    use x509_cert::der::asn1::GeneralizedTime;

    #[test]
    fn the_condition_ready_of_the_object_decides() {
        let end = DateTime::new(2026, 11, 24, 10, 0, 0).unwrap();
        let end = Time::from(GeneralizedTime::from_date_time(end));
        let parse = |response: &[u8]| is_ready(response, "2", Some(end));
        let response = |status: &str, body: &str| {
            parse(format!("HTTP/1.0 {status}\r\nA: b\r\n\r\n{body}").as_bytes())
        };
        let of_boot = |boot: &str, conditions: &str| {
            let info = format!(r#""nodeInfo": {{"bootID": "{boot}"}}"#);
            let status = format!(r#"{{"status": {{{info}, "conditions": [{conditions}]}}}}"#);
            response("200 OK", &status)
        };
        let node = |conditions: &str| of_boot("2", conditions);
        let not = |reason: &str| Err(Failure::new(reason));
        let not_yet = || not("the kubelet has not reported its status yet");
        let pressure = r#"{"type": "DiskPressure", "status": "True"}"#;
        assert_eq!(node(&format!(r#"{pressure}, {{"type": "Ready", "status": "True"}}"#)), Ok(()));
        assert_eq!(
            node(r#"{"type": "Ready", "status": "False", "message": "no CNI"}"#),
            not("no CNI")
        );
        assert_eq!(node(pressure), not_yet());
        assert_eq!(of_boot("1", r#"{"type": "Ready", "status": "True"}"#), not_yet());
        assert_eq!(response("200 OK", "{}"), not_yet());
        assert_eq!(
            response("401 Unauthorized", "{}"),
            not("the API server does not accept the node's certificate, which is valid until \
                 2026-11-24T10:00:00Z")
        );
        assert_eq!(
            response("404 Not Found", "{}"),
            not("the cluster has no Node object for it yet")
        );
        assert_eq!(
            response("403 Forbidden", "{}"),
            not("the API server answers `HTTP/1.0 403 Forbidden`")
        );
        assert!(response("200 OK", "no JSON").is_err());
        assert!(parse(b"SSH-2.0-OpenSSH_9.2\r\n").is_err());
        assert!(parse(b"").is_err());
    }
}
