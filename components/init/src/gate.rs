//! Waits until the node is ready. The asking is done by a child, `init gate NODE-NAME`.

use osbuild_abi::console::{READY, READY_WITHOUT_ADDRESS};
use osbuild_abi::paths::INIT;
use osbuild_failure::Outcome;

use crate::node::Node;
use crate::process::Life;
use crate::uptime::uptime;
use crate::{cluster, last_resort, trial};

/// The name of the phase, the job and the subcommand.
pub const NAME: &str = "gate";

/// Starts the job, which ends well when the kubelet is healthy and every declared pod runs.
pub fn start(node: &mut Node) -> Outcome {
    node.run(NAME, Life::Job, |node_name| [INIT, NAME, node_name].map(str::to_owned).to_vec())
}

/// Notes that the job has ended well: the node is ready.
pub fn opened(node: &mut Node) {
    let now = uptime();
    node.ready = Some(now);
    let lacks = if node.addresses.is_empty() { READY_WITHOUT_ADDRESS } else { "" };
    node.console.line(&format!("{READY} {:.3}{lacks}", now.as_secs_f64()));
    if let Err(failure) = last_resort::reset(node) {
        node.console.say(last_resort::NAME, failure);
    }
    trial::hold(node);
    cluster::follow(node);
}
