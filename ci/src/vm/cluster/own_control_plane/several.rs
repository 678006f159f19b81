//! A control plane of several nodes. Three would outlast the loss of one: two emulated processors
//! have the time for two.

use super::desk::{Desk, RECIPE};
use super::snapshot::in_etcd;
use super::{NEW_NODE_TIMEOUT, OwnCluster};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::cluster::kubectl::Kubectl;
use crate::vm::cluster::process::Process;
use crate::vm::probe::free_port;
use crate::vm::run_command::RunCommand;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::Path;

/// The names of the nodes.
const NODES: [&str; 2] = ["plane-a", "plane-b"];

/// Their network.
const NETWORK: &str = "ci-own-planes";

/// The address at which a node reaches this machine.
const HOST: &str = "10.0.2.2";

/// `osbuild cluster` writes files with which nodes form a control plane behind HAProxy, each with a
/// member of etcd and the pods of a control plane.
pub fn several_nodes_are_one_control_plane(site: &Site) -> Result<Outcome> {
    let desk = Desk::new(site, NETWORK)?;
    desk.forget(&NODES)?;
    let mut outcome = Outcome::default();
    let ports = [free_port()?, free_port()?];
    let (server, _balancer) = balance(&desk, ports)?;
    let cluster = make_cluster(&desk, &server)?;

    let mut planes = Vec::new();
    for (name, port) in NODES.into_iter().zip(ports) {
        let part = if planes.is_empty() { "first" } else { "planes" };
        let files = desk.pulls_and(&desk.path("cluster"), part)?;
        planes.push(boot(&desk, name, port, &files)?);
        outcome.passed += 1;
        cluster.has_plane(&mut outcome, name)?;
    }
    let members = in_etcd(&cluster, NODES[0], &["etcdctl", "member", "list"])?;
    let are_members = members.matches(", started, plane-").count() == NODES.len();
    outcome.check("etcd has a member on each node", are_members, || members);
    cluster.rolls_out(&mut outcome)?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// Boots a node until it is Ready in the cluster. `port` is the one of this machine that leads to
/// its API server.
fn boot(desk: &Desk, name: &str, port: u16, files: &str) -> Result<RunCommand> {
    let forward = format!("{port}:6443");
    let flags = ["--keep", "--name", name, "--files", files, "--forward", &forward];
    let mut node = desk.run_plane(&format!("control-plane-{name}"), &flags)?;
    let ready = format!("init: kubelet: node `{name}` is Ready in its cluster");
    node.wait_at_most(NEW_NODE_TIMEOUT, &ready)?;
    Ok(node)
}

/// Starts HAProxy in front of the API servers at these ports, and returns its port.
fn balance(desk: &Desk, ports: [u16; 2]) -> Result<(String, Process)> {
    let port = free_port()?;
    let servers: String = NODES
        .iter()
        .zip(ports)
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
