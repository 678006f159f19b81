//! The node joins a cluster while it runs.

mod administrator;
mod api_server;

use super::inside::PROBE;
use super::kept::Kept;
use super::machine::HOST;
use super::node::{Node, free_port, tell};
use crate::check::Verdict;
use crate::site::Site;
use administrator::{People, Person};
use api_server::ApiServer;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Lock;
use std::io::Write;
use std::time::Duration;

/// Where the probe takes the URL of an API server and the certificate of a CA.
const PORT: u16 = 7071;

/// The kubelet's port.
const KUBELET: u16 = 10250;

/// How long the kubelet may take to ask the API server for something, and then to answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What `init` says when the node gets its name in the cluster, and of what the probe weakens.
const JOINS: &str = "init: kubelet: joins its cluster as node `node-";
const WEAKENED: &str =
    "init: kubelet-config: warning: `50-cluster.conf` sets `readOnlyPort` to `10255`: ";

/// What the kubelet shows to whom the API server lets in. The last one runs a command in a pod.
const SHOWN: [&str; 3] = ["logs/", "pods", "exec/kube-system/probe/probe?command=id&output=1"];

/// A kubeconfig on DATA and `restart kubelet` at the `admin` socket: the kubelet, at its locked
/// version, comes to that API server. It lets nobody do anything whom the API server does not,
/// whatever certificate they have, and shows the host's logs to whom it does. At its next boot the
/// node joins by itself, and under the same name.
pub fn a_kubeconfig_and_a_word_make_the_node_join(site: &Site) -> Result<Verdict> {
    let path = Lock::path(PROBE);
    let text = std::fs::read_to_string(site.project().join(&path))
        .or_build(|| format!("cannot read `{path}`"))?;
    let lock = Lock::parse(&path, &text)?;
    let kubelet = lock.go.iter().find(|go| go.component == "kubelet");
    let agent = format!(
        "kubelet/{}",
        kubelet.ok_or_else(|| Error::build("the lock has no kubelet"))?.version
    );

    let (people, server) = (People::new(site)?, ApiServer::start()?);
    let (port, kubelet) = (free_port()?, free_port()?);
    let flags = [
        "--keep",
        "--forward",
        &format!("{port}:{PORT}"),
        "--forward",
        &format!("{kubelet}:{KUBELET}"),
    ];
    let _kept = Kept::of(site, PROBE);
    let mut node = Node::boot(site, "joins", PROBE, &flags)?;
    let authority = people.authority()?;
    tell(port, |stream| write!(stream, "http://{HOST}:{}\n{authority}", server.port()))?;
    [WEAKENED, JOINS].iter().try_for_each(|line| node.until(line))?;
    let found = server.sees(&agent, TIMEOUT)?;
    asks_the_api_server(&people, &server, kubelet)?;
    drop(node);
    server.forget();
    let node = Node::boot(site, "starts-joined", PROBE, &flags)?;
    server.sees(&agent, TIMEOUT)?;
    if node.said()?.contains(JOINS) {
        return Err(Error::build("the second boot has chosen the node's name again"));
    }
    Ok(Verdict { passed: 7, said: found, ..Verdict::default() })
}

/// The kubelet lets in whom the API server does, and nobody while that does not answer.
fn asks_the_api_server(people: &People, server: &ApiServer, kubelet: u16) -> Result<()> {
    people.ask(Person::Administrator, kubelet, "logs/", 500, "Authorization error", TIMEOUT)?;
    server.review();
    for log in ["containerd.log", "init.log", "kubelet.log"] {
        people.ask(Person::Administrator, kubelet, "logs/", 200, log, TIMEOUT)?;
    }
    people.ask(
        Person::Administrator,
        kubelet,
        "logs/init.log",
        200,
        osbuild_abi::console::READY,
        TIMEOUT,
    )?;
    SHOWN
        .iter()
        .try_for_each(|path| people.ask(Person::Stranger, kubelet, path, 403, "Forbidden", TIMEOUT))
}
