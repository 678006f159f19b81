//! The way from the API server to nodes and pods. QEMU's user network lets connections in only
//! through forwarded ports of the loopback, so the API server opens them through a proxy, as it
//! does in clusters whose nodes it cannot reach
//! (`https://kubernetes.io/docs/tasks/extend-kubernetes/setup-konnectivity/`).

use osbuild::error::{Context, Result};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Ports of the loopback by the `ADDRESS:PORT` that they lead to.
type Routes = Arc<Mutex<BTreeMap<String, u16>>>;

/// An HTTP proxy on a unix socket that understands `CONNECT` (RFC 9110, section 9.3.6). It runs
/// until the check ends.
pub struct Egress {
    socket: PathBuf,
    routes: Routes,
}

impl Egress {
    /// Starts it with a socket in `folder`.
    pub fn start(folder: &Path) -> Result<Self> {
        let socket = folder.join("egress.sock");
        let listener = UnixListener::bind(&socket)
            .or_build(|| format!("cannot listen on `{}`", socket.display()))?;
        let routes = Routes::default();
        let known = Arc::clone(&routes);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let known = Arc::clone(&known);
                // A connection that fails is repeated or reported by the API server.
                thread::spawn(move || serve(client, &known));
            }
        });
        Ok(Egress { socket, routes })
    }

    /// Leads connections to `address`, an `ADDRESS:PORT`, to the port `port` of the loopback.
    pub fn route(&self, address: &str, port: u16) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.insert(address.to_owned(), port);
    }

    /// The API server's `--egress-selector-config-file`.
    pub fn configuration(&self) -> String {
        format!(
            "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n\
             egressSelections:\n- name: cluster\n  connection:\n    \
             proxyProtocol: HTTPConnect\n    transport: {{ uds: {{ udsName: \"{}\" }} }}\n",
            self.socket.display()
        )
    }
}

/// Connects a client to the address that it requests.
fn serve(mut client: UnixStream, routes: &Routes) -> io::Result<()> {
    let address = requested(BufReader::new(client.try_clone()?))?;
    let port = routes.lock().unwrap_or_else(PoisonError::into_inner).get(&address).copied();
    let server = match port.map(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, port))) {
        Some(Ok(server)) => server,
        _ => return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"),
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let sends = thread::spawn(move || {
        let copied = io::copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Write).and(copied)
    });
    let received = io::copy(&mut &server, &mut client);
    client.shutdown(Shutdown::Both).and(received)?;
    sends.join().map_err(|_| io::Error::other("the other direction panicked"))?.map(drop)
}

/// Reads a request for a tunnel, and returns its address. The client sends nothing else before it
/// has the response.
fn requested(request: BufReader<impl Read>) -> io::Result<String> {
    let lines: Vec<String> = request
        .lines()
        .take_while(|line| line.as_ref().map_or(true, |line| !line.is_empty()))
        .collect::<io::Result<_>>()?;
    let mut words = lines.first().map(|line| line.split(' ')).into_iter().flatten();
    match (words.next(), words.next()) {
        (Some("CONNECT"), Some(address)) => Ok(address.to_owned()),
        _ => Err(io::Error::other("the request is not for a tunnel")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Requests a tunnel to this address, and returns it with the response's first line.
    fn tunnel(egress: &Egress, address: &str) -> (BufReader<UnixStream>, String) {
        let mut client = UnixStream::connect(&egress.socket).unwrap();
        write!(client, "CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let (mut client, mut status) = (BufReader::new(client), String::new());
        client.read_line(&mut status).unwrap();
        (client, status)
    }

    #[test]
    fn a_tunnel_leads_to_the_port_of_its_address_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let egress = Egress::start(folder.path()).unwrap();
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        egress.route("10.0.2.15:10250", server.local_addr().unwrap().port());
        thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut sent = String::new();
            stream.read_to_string(&mut sent).unwrap();
            write!(stream, "{sent} pong").unwrap();
        });
        let (mut client, status) = tunnel(&egress, "10.0.2.15:10250");
        client.get_mut().write_all(b"ping").unwrap();
        client.get_mut().shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!((status.as_str(), answer.as_str()), ("HTTP/1.1 200 OK\r\n", "\r\nping pong"));
        let (_, status) = tunnel(&egress, "10.0.2.15:22");
        assert_eq!(status, "HTTP/1.1 502 Bad Gateway\r\n");
    }
}
