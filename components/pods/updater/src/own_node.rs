//! The node's own Node in the cluster.

use jiff::Timestamp;
use osbuild_failure::{Failure, Outcome};
use osbuild_protocol::Slots;
use serde_json::{Value, json};

use crate::api::Api;
use crate::objects::Node;
use crate::request::{self, Changes, Offered};

/// Where a client asks who it is.
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// How the name of a node's user begins.
const USER: &str = "system:node:";

/// The Node, as it was read.
pub struct OwnNode {
    api: Api,
    path: String,
    node: Node,
}

impl OwnNode {
    /// Reads it, with the credentials of the node's kubelet.
    ///
    /// # Errors
    /// The API server cannot be reached, or does not accept the node.
    pub async fn read(api: Api) -> Outcome<OwnNode> {
        let review: Value = api.create(WHO_AM_I, &json!({})).await?;
        let user = review["status"]["userInfo"]["username"].as_str().unwrap_or_default();
        let not_a_node = || Failure::new(format!("the API server takes the node for `{user}`"));
        let path = format!("/api/v1/nodes/{}", user.strip_prefix(USER).ok_or_else(not_a_node)?);
        let node = api.get(&path).await?;
        Ok(OwnNode { api, path, node })
    }

    /// Asks for a reboot into this version, and returns whether it is granted.
    pub async fn ask(&mut self, version: &str) -> Outcome<bool> {
        let changes = request::ask(&self.node.metadata.annotations, version, Timestamp::now());
        self.annotate(&changes).await?;
        Ok(request::is_granted(&self.node.metadata.annotations, version))
    }

    /// Whether the node has rebooted as it asked, and what became of that is not known yet.
    pub fn is_on_trial(&self, slots: &Slots) -> bool {
        request::is_on_trial(&self.node.metadata.annotations, slots)
    }

    /// Reports what became of the request.
    pub async fn settle(&mut self, slots: &Slots, offered: Offered<'_>) -> Outcome {
        let changes = request::settle(&self.node.metadata.annotations, slots, offered);
        self.annotate(&changes).await
    }

    async fn annotate(&mut self, changes: &Changes) -> Outcome {
        if !changes.is_empty() {
            let fields = json!({ "metadata": { "annotations": changes } });
            self.node = self.api.patch(&self.path, &fields).await?;
        }
        Ok(())
    }
}
