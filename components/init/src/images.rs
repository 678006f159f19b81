//! Loads the pod images that came with the node into containerd. The work is done by a child, `init images`.

use osbuild_abi::paths::INIT;

use crate::failure::Outcome;
use crate::node::Node;
use crate::process::Life;

/// The name of the phase, the job and the subcommand.
pub const NAME: &str = "images";

/// Starts the job. It runs beside the kubelet's start and has ended long before the kubelet wants an image.
pub fn start(node: &mut Node) -> Outcome {
    node.run(NAME, Life::Job, |_| [INIT, NAME].map(str::to_owned).to_vec())
}
