//! containerd, the first of the two daemons.

use osbuild_abi::paths::{BIN, CONTAINERD_CONFIG, CONTAINERD_SOCKET};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::daemon;
use crate::host::cgroups;
use crate::processes::process::Launch;
use crate::processes::program::Program;

/// Its `PATH`, which CNI plugins inherit: they look for `nft` or `iptables`, which only the pod
/// that installs the plugins can bring. The host's folder comes first, so that no file in the other
/// one takes the place of a program of the host.
const SEARCH_PATH: &str = "/bin:/opt/cni/bin";

/// How it is started, with these variables.
pub fn launch(variables: Vec<(&'static str, String)>) -> Launch {
    let program = format!("{BIN}/{}", Program::Containerd.name());
    let words = vec![program, "--config".to_owned(), CONTAINERD_CONFIG.to_owned()];
    daemon::launch(words, SEARCH_PATH, variables, cgroups::CONTAINERD)
}

/// Whether it accepts connections. It listens only once all its plugins are up.
pub fn accepts() -> bool {
    connects(CONTAINERD_SOCKET)
}

/// Whether a program listens at `path`. It does not wait for one whose backlog is full.
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
    fn the_folder_of_cni_plugins_is_searched_last() {
        assert_eq!(SEARCH_PATH.split(':').collect::<Vec<_>>(), [BIN, CNI_PLUGINS]);
    }

    #[test]
    fn a_listener_with_a_full_backlog_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let path = path.to_str().unwrap();
        assert!(!connects(path));
        let _listener = UnixListener::bind(path).unwrap();
        assert!(connects(path));
        // Sooner or later the backlog is full.
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
