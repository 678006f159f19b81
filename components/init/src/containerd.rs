//! containerd, the first of the two daemons.

use osbuild_abi::paths::{BIN, CONTAINERD_CONFIG, CONTAINERD_SOCKET};
use osbuild_failure::Outcome;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::node::Node;
use crate::process::{Life, Process};

/// Its name.
pub const NAME: &str = "containerd";

/// Its `PATH`, which CNI plugins inherit: they look for `nft` or `iptables`, which only the pod
/// that brings the plugins can bring. The host's own folder comes first, so that what is in the
/// other one never takes the place of a program of the host.
const SEARCH_PATH: &str = "/bin:/opt/cni/bin";

/// Starts it.
pub fn start(node: &mut Node) -> Outcome {
    let command = |_: &str| {
        vec![format!("{BIN}/{NAME}"), "--config".to_owned(), CONTAINERD_CONFIG.to_owned()]
    };
    node.launch(Process::new(NAME, Life::Daemon, command)?.with_search_path(SEARCH_PATH))
}

/// Whether it takes connections. It listens only once all its plugins are up.
pub fn answers(_: &Node) -> bool {
    connects(CONTAINERD_SOCKET)
}

/// Whether somebody listens at a path. One who takes nobody of those that wait already is not
/// waited for.
fn connects(path: &str) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connect = || {
        connect(
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?,
            &SocketAddrUnix::new(path)?,
        )
    };
    connect().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::paths::CNI_PLUGINS;
    use std::os::unix::net::UnixListener;

    #[test]
    fn programs_of_cni_plugins_are_looked_for_last() {
        assert_eq!(SEARCH_PATH.split(':').collect::<Vec<_>>(), [BIN, CNI_PLUGINS]);
    }

    #[test]
    fn a_listener_that_takes_nobody_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let path = path.to_str().unwrap();
        assert!(!connects(path));
        let _listener = UnixListener::bind(path).unwrap();
        assert!(connects(path));
        // Sooner or later no more connections can wait to be taken.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let mut waiting = Vec::new();
        while waiting.len() < 10_000 {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            if connect(&socket, &SocketAddrUnix::new(path).unwrap()).is_err() {
                break;
            }
            waiting.push(socket);
        }
        assert!(!connects(path));
    }
}
