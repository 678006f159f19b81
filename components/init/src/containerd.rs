//! containerd, the first of the two daemons.

use std::os::unix::net::UnixStream;

use osbuild_abi::paths::{BIN, CONTAINERD_CONFIG, CONTAINERD_SOCKET};
use osbuild_failure::Outcome;

use crate::node::Node;
use crate::process::Life;

/// Its name.
pub const NAME: &str = "containerd";

/// Starts it.
pub fn start(node: &mut Node) -> Outcome {
    node.run(NAME, Life::Daemon, |_| [format!("{BIN}/{NAME}"), "--config".to_owned(), CONTAINERD_CONFIG.to_owned()].to_vec())
}

/// Whether it takes connections. It listens only once all its plugins are up.
pub fn answers(_: &Node) -> bool {
    UnixStream::connect(CONTAINERD_SOCKET).is_ok()
}
