//! Waits until the cluster reports the node as Ready, once the node itself is. A child, `init
//! cluster NODE-NAME`, asks the API server; PID 1 has no TLS.

use osbuild_abi::paths::INIT;

use crate::node::Node;
use crate::process::Life;
use crate::{kubelet, node_name, reached};

/// The name of the job and of the subcommand.
pub const NAME: &str = "cluster";

/// Starts the job, if the kubelet has joined a cluster and the job has never been started.
pub fn follow(node: &mut Node) {
    if node.ready.is_none() || !node_name::joins(&node.node_name) || node.process(NAME).is_some() {
        return;
    }
    if let Err(failure) =
        node.run(NAME, Life::Job, |node_name| [INIT, NAME, node_name].map(str::to_owned).to_vec())
    {
        node.console.say(NAME, failure);
    }
}

/// Notes that the job has ended well: the cluster reports the node as Ready.
pub fn ready(node: &mut Node) {
    let line = format!("node `{}` is Ready in its cluster", node.node_name);
    node.console.say(kubelet::NAME, line);
    node.in_cluster = true;
    reached::gained(node, reached::Goal::Cluster);
}
