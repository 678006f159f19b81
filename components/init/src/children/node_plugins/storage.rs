//! The storage drivers (CSI) that pods have put on the node, by their sockets.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use osbuild_protocol::{DriverSocket, MAX_DRIVERS, StorageDriver, StorageDrivers};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// How the names of sockets end, and those of registrations, which begin with the driver's.
const SOCKET: &str = ".sock";
const REGISTRATION: &str = "-reg";

/// The most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 1024;

/// The drivers with a socket in the folder `registrations`, and those with one in a folder of their
/// name in `plugins`.
pub fn drivers(registrations: &Path, plugins: &Path) -> StorageDrivers {
    let mut found: BTreeMap<String, StorageDriver> = BTreeMap::new();
    let mut of = |name: &str, put: &dyn Fn(&mut StorageDriver)| {
        let driver = found.entry(name.to_owned()).or_default();
        name.clone_into(&mut driver.name);
        put(driver);
    };
    for (name, path) in sockets(registrations) {
        let name = name.strip_suffix(REGISTRATION).unwrap_or(&name);
        of(name, &|driver| driver.registration = Some(socket(&path)));
    }
    for folder in entries(plugins).filter(|entry| entry.is_dir()) {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        // The first one counts. A driver has one.
        if let Some((_, path)) = sockets(&folder).into_iter().next() {
            of(name, &|driver| driver.endpoint = Some(socket(&path)));
        }
    }
    let left_out = found.len().saturating_sub(MAX_DRIVERS) as u64;
    StorageDrivers { left_out, drivers: found.into_values().take(MAX_DRIVERS).collect() }
}

/// The sockets in a folder by their names without the suffix, in order.
fn sockets(folder: &Path) -> Vec<(String, PathBuf)> {
    let is_socket = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket())
    };
    let found = entries(folder).filter(is_socket).filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(SOCKET)?.to_owned();
        Some((name, path)).filter(|(name, _)| !name.is_empty())
    });
    let mut found: Vec<(String, PathBuf)> = found.collect();
    found.sort();
    found
}

/// The entries of a folder; none if it does not exist.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).take(MAX_ENTRIES)
}

fn socket(path: &Path) -> DriverSocket {
    DriverSocket { path: path.display().to_string(), listens: listens(path) }
}

/// Whether a process listens. It sees a connection that ends at once, as from a probe. A path that
/// is too long for the kernel is so for the kubelet as well.
fn listens(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &address)
    });
    // The kernel does not wait for a process with many connections.
    matches!(connected, Ok(()) | Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{Shutdown, shutdown};
    use std::os::unix::net::UnixListener;

    /// Ends listening, although children of other tests have the descriptor until they execute
    /// their programs.
    fn end(listener: &UnixListener) {
        shutdown(listener, Shutdown::Both).unwrap();
    }

    #[test]
    fn a_driver_has_both_sockets_and_whether_a_process_listens() {
        let node = tempfile::tempdir().unwrap();
        let (registrations, plugins) = (node.path().join("registry"), node.path().join("plugins"));
        let all = || drivers(&registrations, &plugins);
        assert_eq!(all(), StorageDrivers::default());
        fs::create_dir_all(plugins.join("a.csi")).unwrap();
        fs::create_dir_all(plugins.join("kubernetes.io/csi")).unwrap();
        fs::create_dir(&registrations).unwrap();
        let registration = UnixListener::bind(registrations.join("a.csi-reg.sock")).unwrap();
        let _endpoint = UnixListener::bind(plugins.join("a.csi/csi.sock")).unwrap();
        end(&UnixListener::bind(registrations.join("b.csi.sock")).unwrap());
        fs::write(registrations.join("c.csi-reg.sock"), "no socket").unwrap();
        let socket =
            |path: &Path, listens| Some(DriverSocket { path: path.display().to_string(), listens });
        let a = |listens| StorageDriver {
            name: "a.csi".to_owned(),
            registration: socket(&registrations.join("a.csi-reg.sock"), listens),
            endpoint: socket(&plugins.join("a.csi/csi.sock"), true),
        };
        let b = StorageDriver {
            name: "b.csi".to_owned(),
            registration: socket(&registrations.join("b.csi.sock"), false),
            endpoint: None,
        };
        assert_eq!(all().drivers, [a(true), b.clone()]);
        // The pod of the driver has crashed.
        end(&registration);
        assert_eq!(all().drivers, [a(false), b]);
    }

    #[test]
    fn a_process_with_many_connections_listens_and_is_not_waited_for() {
        let node = tempfile::tempdir().unwrap();
        let path = node.path().join("a.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!((0..9000).all(|_| listens(&path)));
        assert!(!listens(&node.path().join("b".repeat(200))));
    }
}
