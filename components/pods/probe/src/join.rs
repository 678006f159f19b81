//! Makes the node join a cluster as an administrator's pod would: it writes a kubeconfig and
//! kubelet settings to DATA, and sends a request to the `admin` socket.

use osbuild_abi::paths::{ADMIN_SOCKET, CLIENT_CA, KUBECONFIG, KUBELET_CONFIG_DIR};
use osbuild_protocol::Request;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::sockets;

/// A kubelet setting that weakens the node, which `init` must report.
const DROP_IN: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreadOnlyPort: 10255\n";

/// Makes the node whose root is `host` join the cluster of the API server at the URL `server`.
/// `authority` is the certificate of the CA of its clients. Returns `init`'s reply.
pub fn join(host: &Path, server: &str, authority: &str) -> io::Result<String> {
    let (settings, ca) = (inside(host, KUBELET_CONFIG_DIR), inside(host, CLIENT_CA));
    for folder in [Some(settings.as_path()), ca.parent()].into_iter().flatten() {
        fs::create_dir_all(folder)?;
    }
    write(&ca, authority)?;
    write(&settings.join("50-cluster.conf"), DROP_IN)?;
    write(&inside(host, KUBECONFIG), &kubeconfig(server))?;
    sockets::request(host, ADMIN_SOCKET, &Request::RestartKubelet.to_string())
}

/// Writes a file and flushes it and its folder, so that it survives a power cut.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn inside(host: &Path, path: &str) -> PathBuf {
    host.join(path.trim_start_matches('/'))
}

/// A kubeconfig for a server that accepts any client.
fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters: [{{ name: test, cluster: {{ server: \"{server}\" }} }}]\n\
         users: [{{ name: test, user: {{ token: test }} }}]\n\
         contexts: [{{ name: test, context: {{ cluster: test, user: test }} }}]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_kubeconfig_is_written_before_the_kubelet_restarts() {
        let root = tempfile::tempdir().unwrap();
        let (socket, config) = (inside(root.path(), ADMIN_SOCKET), inside(root.path(), KUBECONFIG));
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        fs::create_dir_all(config.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let init = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            (&stream).write_all(b"ok\n").unwrap();
            (line, fs::read_to_string(config).unwrap())
        });
        assert_eq!(join(root.path(), "http://192.0.2.1:6443", "a certificate").unwrap(), "ok\n");
        let (line, config) = init.join().unwrap();
        assert_eq!(line, "restart kubelet\n");
        assert!(config.contains("server: \"http://192.0.2.1:6443\""), "{config}");
        assert_eq!(fs::read_to_string(inside(root.path(), CLIENT_CA)).unwrap(), "a certificate");
    }
}
