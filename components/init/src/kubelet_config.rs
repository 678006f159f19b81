//! What has to be read before the kubelet starts, and was written by others: its kubeconfig, its
//! certificate and its drop-ins. The reading is done by a child, `init kubelet-config`, each time
//! before the kubelet is started on purpose.

use std::path::Path;

use osbuild_abi::paths::INIT;
use osbuild_failure::Outcome;

use crate::name;
use crate::node::Node;
use crate::process::Life;
use crate::uptime::uptime;

/// The name of the phase, the job and the subcommand.
pub const NAME: &str = "kubelet-config";

/// The file in memory where the child leaves the name in the kubelet's client certificate; empty if
/// there is none.
pub const CERTIFIED_NAME: &str = "/run/osbuild/kubelet/certified-name";
/// The kubelet's configuration without a cluster, and with one.
pub const STANDALONE: &str = "/run/osbuild/kubelet/standalone.json";
pub const JOINED: &str = "/run/osbuild/kubelet/joined.json";

/// Starts the child.
pub fn start(node: &mut Node) -> Outcome {
    node.run(NAME, Life::Job, |_| [INIT, NAME].map(str::to_owned).to_vec())
}

/// Has the child read everything anew. When it has ended,
/// [`kubelet::start_anew`](crate::kubelet::start_anew) follows.
pub fn renew(node: &mut Node) {
    if let Some(child) = node.process(NAME) {
        child.again(uptime());
    }
}

/// The name in the kubelet's client certificate, as the child has found it last.
pub fn certified_name() -> Option<String> {
    name::read(Path::new(CERTIFIED_NAME))
}
