//! containerd, the first of the two daemons.

use std::os::unix::net::UnixStream;

use osbuild_abi::paths::{BIN, CONTAINERD_CONFIG, CONTAINERD_SOCKET};
use osbuild_failure::Outcome;

use crate::node::Node;
use crate::process::{Life, Process};

/// Its name.
pub const NAME: &str = "containerd";

/// Its `PATH`, which CNI plugins inherit: they look for `nft` or `iptables`, which only the pod that brings the plugins can bring. The host's own
/// folder comes first, so that what is in the other one never takes the place of a program of the host.
const SEARCH_PATH: &str = "/bin:/opt/cni/bin";

/// Starts it.
pub fn start(node: &mut Node) -> Outcome {
    let command = |_: &str| vec![format!("{BIN}/{NAME}"), "--config".to_owned(), CONTAINERD_CONFIG.to_owned()];
    node.launch(Process::new(NAME, Life::Daemon, command)?.with_search_path(SEARCH_PATH))
}

/// Whether it takes connections. It listens only once all its plugins are up.
pub fn answers(_: &Node) -> bool {
    UnixStream::connect(CONTAINERD_SOCKET).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::paths::CNI_PLUGINS;

    #[test]
    fn programs_of_cni_plugins_are_looked_for_last() {
        assert_eq!(SEARCH_PATH.split(':').collect::<Vec<_>>(), [BIN, CNI_PLUGINS]);
    }
}
