//! `init cluster NODE-NAME LABEL…` ends well when the API server reports the node as Ready in this
//! boot.

use std::time::Duration;

use osbuild_failure::Outcome;

use super::cluster_node::ClusterNode;
use super::node_labels::{self, Labels};
use crate::host::registration::node_object;

/// The time between two requests.
const INTERVAL: Duration = Duration::from_secs(3);

/// Waits until the node is Ready, and prints why it is not each time the reason changes. Then it
/// gives the node the labels that the arguments have, and reports what the node has.
pub fn wait(node_name: &str, labels: &[&str]) -> Outcome {
    let labels = Labels::parse(labels)?;
    let mut printed = String::new();
    loop {
        match ClusterNode::get(node_name).and_then(|node| node.is_ready().map(|()| node)) {
            Ok(node) => {
                let found = node_labels::settle(node.config(), node_name, &labels);
                return node_object::write(&found);
            }
            Err(reason) => {
                let reason = reason.to_string();
                if reason != printed {
                    println!("not Ready: {reason}");
                    printed = reason;
                }
            }
        }
        std::thread::sleep(INTERVAL);
    }
}
