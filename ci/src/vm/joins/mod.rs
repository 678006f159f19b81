//! A running node joins a cluster.

mod administrator;
mod api_server;

use super::kept_disk::KeptDisk;
use super::machine::{HOST, Machine};
use super::probe::{self, free_port};
use crate::check::Outcome;
use crate::image::lock;
use crate::site::Site;
use administrator::{User, Users};
use api_server::ApiServer;
use osbuild::error::{Error, Result};
use std::io::Write;
use std::time::Duration;

/// The kubelet's port.
const KUBELET: u16 = 10250;

/// How long the kubelet may take to connect to the API server, and then to answer a request.
const TIMEOUT: Duration = Duration::from_secs(120);

/// `init`'s lines when the node gets its name in the cluster, and about the probe's setting.
const JOINS: &str = "init: kubelet: joins its cluster as node `node-";
const WEAKENED: &str =
    "init: kubelet-config: warning: `50-cluster.conf` sets `readOnlyPort` to `10255`: ";

/// Paths of the kubelet's API. The last one runs a command in a pod.
const PATHS: [&str; 3] = ["logs/", "pods", "exec/kube-system/probe/probe?command=id&output=1"];

/// A kubeconfig on DATA and `restart kubelet` at the `admin` socket: the kubelet, at its locked
/// version, connects to that API server. It authorizes only requests that the API server allows,
/// whatever certificate they come with, and then shows the host's logs. At its next boot the node
/// joins by itself under the same name.
pub fn a_kubeconfig_and_one_command_make_the_node_join(site: &Site) -> Result<Outcome> {
    let lock = lock(site, probe::RECIPE)?;
    let kubelet = lock.go.iter().find(|go| go.component == "kubelet");
    let agent = format!(
        "kubelet/{}",
        kubelet.ok_or_else(|| Error::build("the lock has no kubelet"))?.version
    );

    let (users, server) = (Users::new(site)?, ApiServer::start()?);
    let (port, kubelet) = (free_port()?, free_port()?);
    let disk = KeptDisk::of(site, probe::RECIPE)?;
    let boot = |log: &str| {
        Machine::of_recipe(site, probe::RECIPE, log)?
            .keep(disk.path())
            .forward(port, probe::JOIN)
            .forward(kubelet, KUBELET)
            .boot()
    };
    let mut node = boot("joins")?;
    let authority = users.authority()?;
    probe::command(port, |stream| write!(stream, "http://{HOST}:{}\n{authority}", server.port()))?;
    [WEAKENED, JOINS].iter().try_for_each(|line| node.wait_until_printed(line))?;
    let found = server.sees(&agent, TIMEOUT)?;
    kubelet_asks_the_api_server(&users, &server, kubelet)?;
    drop(node);
    server.forget();
    let mut node = boot("starts-joined")?;
    server.sees(&agent, TIMEOUT)?;
    if node.console()?.contains(JOINS) {
        return Err(Error::build("the second boot has chosen the node's name again"));
    }
    Ok(Outcome { passed: 7, summary: found, ..Outcome::default() })
}

/// The kubelet allows what the API server allows, and nothing while the API server does not answer.
fn kubelet_asks_the_api_server(users: &Users, server: &ApiServer, kubelet: u16) -> Result<()> {
    users.ask(User::Administrator, kubelet, "logs/", 500, "Authorization error", TIMEOUT)?;
    server.review();
    for log in ["containerd.log", "init.log", "kubelet.log"] {
        users.ask(User::Administrator, kubelet, "logs/", 200, log, TIMEOUT)?;
    }
    users.ask(
        User::Administrator,
        kubelet,
        "logs/init.log",
        200,
        osbuild_abi::console::READY,
        TIMEOUT,
    )?;
    PATHS
        .iter()
        .try_for_each(|path| users.ask(User::Stranger, kubelet, path, 403, "Forbidden", TIMEOUT))
}
