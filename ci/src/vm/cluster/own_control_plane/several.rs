//! A control plane of several nodes: two form one and are upgraded, and three outlast the loss of
//! one.

use super::desk::{Desk, PLANE_PROCESSORS, RECIPE};
use super::snapshot::in_etcd;
use super::upgrade::nodes_are_upgraded;
use super::{NEW_NODE_TIMEOUT, OwnCluster};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::cluster::kubectl::Kubectl;
use crate::vm::cluster::minor::Minor;
use crate::vm::cluster::process::Process;
use crate::vm::probe::free_port;
use crate::vm::run_command::RunCommand;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::Path;

/// The names of the nodes.
const NODES: [&str; 3] = ["plane-a", "plane-b", "plane-c"];

/// The networks of two and of three nodes.
const TWO: &str = "ci-own-planes";
const THREE: &str = "ci-three-planes";

/// Processors of each of three nodes. Together they have more than this machine, and emulated ones
/// then wait for each other's locks.
const FEW_PROCESSORS: u32 = 1;

/// The address at which a node reaches this machine.
const HOST: &str = "10.0.2.2";

/// `osbuild cluster` writes files with which nodes form a control plane behind HAProxy, each with a
/// member of etcd and the pods of a control plane. kubeadm upgrades one node after the other.
pub fn several_nodes_are_one_control_plane(site: &Site) -> Result<Outcome> {
    Minor::Next.build(site)?;
    let (desk, mut outcome) = (Desk::new(site, TWO)?, Outcome::default());
    let nodes = &NODES[..2];
    let planes = Planes::start(&desk, nodes, PLANE_PROCESSORS, &mut outcome)?;
    planes.cluster.rolls_out(&mut outcome)?;
    nodes_are_upgraded(&desk, &planes.cluster, nodes, &mut outcome)?;
    for node in nodes {
        planes.cluster.has_plane(&mut outcome, node)?;
    }
    planes.has_members(&mut outcome)?;
    planes.cluster.kubectl.output(&["rollout", "restart", "deployment/web"])?;
    planes.cluster.rolls_out(&mut outcome)?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// Three nodes are a control plane that goes on when one of them is lost: a Deployment rolls out on
/// the other two, and the lost node is Ready again once it is back. Then each of the others is lost
/// and comes back, one after another.
pub fn a_control_plane_outlasts_the_loss_of_a_node(site: &Site) -> Result<Outcome> {
    let (desk, mut outcome) = (Desk::new(site, THREE)?, Outcome::default());
    let mut planes = Planes::start(&desk, &NODES, FEW_PROCESSORS, &mut outcome)?;
    planes.cut(0);
    planes.cluster.rolls_out(&mut outcome)?;
    planes.boot(0, &mut outcome)?;
    for lost in 1..NODES.len() {
        planes.cut(lost);
        let words = ["get", "--raw=/readyz"];
        planes.cluster.claim(&mut outcome, "the other nodes answer", &words, "ok")?;
        planes.boot(lost, &mut outcome)?;
    }
    planes.has_members(&mut outcome)?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// Nodes of one control plane.
struct Planes<'a> {
    desk: &'a Desk<'a>,
    cluster: OwnCluster<'a>,
    /// Of each node.
    processors: u32,
    nodes: Vec<Plane>,
    _balancer: Process,
}

struct Plane {
    name: &'static str,
    /// The port of this machine that leads to its API server.
    port: u16,
    /// The arguments that give it its files.
    files: String,
    /// `None` while it has no power.
    running: Option<RunCommand>,
}

impl<'a> Planes<'a> {
    /// Starts one after another.
    fn start(
        desk: &'a Desk<'a>,
        names: &'static [&'static str],
        processors: u32,
        outcome: &mut Outcome,
    ) -> Result<Self> {
        let ports = names.iter().map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        let servers: Vec<(&str, u16)> = names.iter().copied().zip(ports).collect();
        let (server, balancer) = balance(desk, &servers)?;
        let cluster = make_cluster(desk, &server)?;
        let mut planes =
            Planes { desk, cluster, processors, nodes: Vec::new(), _balancer: balancer };
        for (name, port) in servers {
            let part = if planes.nodes.is_empty() { "first" } else { "planes" };
            let files = desk.pulls_and(&desk.path("cluster"), part)?;
            planes.nodes.push(Plane { name, port, files, running: None });
            planes.boot(planes.nodes.len() - 1, outcome)?;
        }
        planes.has_members(outcome)?;
        Ok(planes)
    }

    /// Boots a node until it is Ready in the cluster, with the pods of a control plane.
    fn boot(&mut self, at: usize, outcome: &mut Outcome) -> Result<()> {
        let Plane { name, port, files, running } = &mut self.nodes[at];
        let forward = format!("{port}:6443");
        let flags = ["--keep", "--name", *name, "--files", files, "--forward", &forward];
        let log = format!("control-plane-{name}");
        let mut node = self.desk.run_plane_with(&log, self.processors, &flags)?;
        let ready = format!("init: kubelet: node `{name}` is Ready in its cluster");
        node.wait_at_most(NEW_NODE_TIMEOUT, &ready)?;
        *running = Some(node);
        outcome.passed += 1;
        self.cluster.has_plane(outcome, name)
    }

    /// Takes the power from a node.
    fn cut(&mut self, at: usize) {
        self.nodes[at].running = None;
    }

    /// etcd has a member that has started on each node.
    fn has_members(&self, outcome: &mut Outcome) -> Result<()> {
        let members = in_etcd(&self.cluster, self.nodes[0].name, &["etcdctl", "member", "list"])?;
        let are_members = members.matches(", started, plane-").count() == self.nodes.len();
        outcome.check("etcd has a member on each node", are_members, || members);
        Ok(())
    }
}

/// Starts HAProxy in front of the API servers at these ports, and returns its port.
fn balance(desk: &Desk, servers: &[(&str, u16)]) -> Result<(String, Process)> {
    let port = free_port()?;
    let servers: String = servers
        .iter()
        .map(|(name, port)| format!("    server {name} 127.0.0.1:{port} check\n"))
        .collect();
    let file = desk.path("haproxy.cfg");
    // QEMU accepts connections to ports on which the node does not listen, so the answer counts.
    let text = format!(
        "defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout check 30s
listen api-server
    bind 127.0.0.1:{port}
    option httpchk GET /readyz
    default-server check-ssl verify none inter 15s fall 4 rise 1 on-marked-down shutdown-sessions
{servers}"
    );
    fs::write(&file, text).or_build(|| "cannot write HAProxy's configuration".to_owned())?;
    let arguments = ["-db".to_owned(), "-f".to_owned(), file.display().to_string()];
    let balancer = Process::start(desk.site, Path::new("/usr/sbin"), "haproxy", &arguments)?;
    Ok((port.to_string(), balancer))
}

/// Writes the files of a cluster behind this port.
fn make_cluster<'a>(desk: &'a Desk, port: &str) -> Result<OwnCluster<'a>> {
    let (folder, site) = (desk.path("cluster"), desk.site);
    let mut command = site.osbuild()?;
    command.args(["cluster", RECIPE]).arg(&folder).arg("--slow");
    command.args(["--server", &format!("{HOST}:{port}")]);
    command.args(["--administrator", &format!("127.0.0.1:{port}")]);
    site.finish("control-plane-files", &mut command)?;
    let kubeconfig = folder.join("administrator.kubeconfig");
    Ok(OwnCluster { kubectl: Kubectl::with(site, kubeconfig, desk.path("kubectl"))? })
}
