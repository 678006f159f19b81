//! The node joins a cluster while it runs.

mod administrator;

use super::inside::PROBE;
use super::kept::Kept;
use super::machine::HOST;
use super::node::{Node, free_port, tell};
use crate::check::Verdict;
use crate::site::Site;
use administrator::Administrator;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Lock;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Where the probe takes the URL of an API server and the certificate of a CA.
const PORT: u16 = 7071;

/// The kubelet's port.
const KUBELET: u16 = 10250;

/// How long the kubelet may take to ask the API server for something, and then to answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A kubeconfig and settings on DATA and `restart kubelet` at the `admin` socket: the kubelet, at its locked version, comes to that API
/// server, and shows the host's logs to whom the settings let in. At its next boot the node joins by itself.
pub fn a_kubeconfig_and_a_word_make_the_node_join(site: &Site) -> Result<Verdict> {
    let path = Lock::path(PROBE);
    let text = std::fs::read_to_string(site.project().join(&path)).or_build(|| format!("cannot read `{path}`"))?;
    let lock = Lock::parse(&path, &text)?;
    let kubelet = lock.go.iter().find(|go| go.component == "kubelet");
    let agent = format!("kubelet/{}", kubelet.ok_or_else(|| Error::build("the lock has no kubelet"))?.version);

    let administrator = Administrator::new(site)?;
    let (server, agents) = api_server()?;
    let (port, kubelet) = (free_port()?, free_port()?);
    let flags = ["--keep", "--forward", &format!("{port}:{PORT}"), "--forward", &format!("{kubelet}:{KUBELET}")];
    let _kept = Kept::of(site, PROBE);
    let node = Node::boot(site, "joins", PROBE, &flags)?;
    let authority = administrator.authority()?;
    tell(port, |stream| write!(stream, "http://{HOST}:{server}\n{authority}"))?;
    let found = come(&agents, &agent)?;
    for log in ["containerd.log", "init.log", "kubelet.log"] {
        administrator.sees(kubelet, "logs/", log, PATIENCE)?;
    }
    administrator.sees(kubelet, "logs/init.log", osbuild_abi::console::READY, PATIENCE)?;
    drop(node);
    agents.try_iter().for_each(drop);
    let _node = Node::boot(site, "starts-joined", PROBE, &flags)?;
    come(&agents, &agent)?;
    Ok(Verdict { passed: 3, said: found, ..Verdict::default() })
}

/// An API server that is never there for anybody: its port, and who asked.
fn api_server() -> Result<(u16, Receiver<String>)> {
    let cannot = || "cannot listen".to_owned();
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
    let port = server.local_addr().or_build(cannot)?.port();
    let (said, agents) = channel();
    std::thread::spawn(move || server.incoming().flatten().for_each(|stream| refuse(stream, &said)));
    Ok((port, agents))
}

/// Waits until somebody whose name begins with `agent` has asked, and gives the whole name.
fn come(agents: &Receiver<String>, agent: &str) -> Result<String> {
    let mut others = BTreeSet::new();
    let end = Instant::now() + PATIENCE;
    while let Ok(found) = agents.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if found.starts_with(agent) {
            return Ok(found);
        }
        others.insert(found);
    }
    let error = Error::build(format!("`{agent}` did not come to the API server"));
    Err(others.into_iter().fold(error, |error, other| error.cause(format!("`{other}` did"))))
}

/// Passes on who asked.
fn refuse(mut stream: TcpStream, said: &Sender<String>) {
    let Ok(reader) = stream.try_clone() else { return };
    for line in BufReader::new(reader).lines().map_while(|line| line.ok().filter(|line| !line.is_empty())) {
        if let Some(agent) = line.strip_prefix("User-Agent: ") {
            // Nobody listens any more once the kubelet was seen.
            let _ = said.send(agent.to_owned());
        }
    }
    // The kubelet tries again, whatever it makes of this.
    let _ = stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}
