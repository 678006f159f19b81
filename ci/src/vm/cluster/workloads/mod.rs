//! What people run on a cluster on the first day, with unmodified software: images from a registry,
//! kube-proxy and CoreDNS as kubeadm deploys them, and the real `kubectl`.

mod client;
mod first_day;

use super::addons::{self, ProxyMode};
use super::control_plane::ControlPlane;
use super::joining::{Ports, join};
use super::kubectl::Kubectl;
use super::registry::Registry;
use super::{Cluster, metrics, serving, text};
use crate::check::Outcome;
use crate::recipe;
use crate::site::Site;
use crate::vm::kept_disk::KeptDisk;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use client::Client;
use first_day::FirstDay;
use osbuild::error::Result;
use std::path::{Path, PathBuf};

/// The recipe of this check.
const WORKLOADS: &str = "workloads";

/// The recipe that it inherits: a node with CNI plugins and a bridge for its pods.
const SINGLE: &str = "single-amd64";

/// The recipe's own lines.
const RECIPE: &str = "
[pods]
probe = { component = \"probe\" }
";

/// The addresses of that node's pods (`recipes/10-bridge.conflist`).
const PODS: &str = "10.88.0.0/16";

/// The size of the node's disk in MiB, which holds the images.
const DISK_MIB: u64 = 4096;

/// The objects of this check.
const DEPLOYMENT: &str = include_str!("deployment.yaml");

/// A node pulls the images of kube-proxy, CoreDNS and a Deployment from a registry that it knows by
/// files on DATA alone. A client reaches the pods through their Service, `kubectl` reaches the
/// client, and after a reboot all of this works again. The node is observed through the API. Then
/// pods get the volumes, limits and users
/// that they ask for, an administrator drains the node, and kube-proxy changes to iptables.
pub fn a_stock_deployment_works_and_survives_a_reboot(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site)?;
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start(site, &cluster.plane)?;
    let refuses = registry.refuses_strangers(site)?;
    cluster.outcome.claim("the registry asks for a password", refuses);
    cluster.plane.egress().route(serving::ADDRESS, lab.kubelet);
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    let disk = KeptDisk::in_project(&lab.project, WORKLOADS);

    let mut node = lab.boot(disk.path(), "workloads-first")?;
    join(&cluster.plane, registry.node_files(&cluster.plane)?, &lab.ports)?;
    let first = cluster.ready_node(&mut node, None)?;
    let name = text(&first, "/metadata/name");
    serving::the_cluster_signs_it(&kubectl, name, &mut cluster.outcome)?;
    addons::deploy(site, &cluster.plane, ProxyMode::Nftables, PODS)?;
    metrics::deploy(site, &cluster.plane, &kubectl, lab.metrics)?;
    kubectl.apply(DEPLOYMENT)?;
    let client = Client { kubectl: &kubectl, node_port: lab.node_port };
    client.rolls_out(&mut cluster.outcome)?;
    client.works(&mut cluster.outcome, "")?;
    node.power_off()?;

    let mut node = lab.boot(disk.path(), "workloads-again")?;
    cluster.ready_node(&mut node, Some(&first))?;
    client.works(&mut cluster.outcome, " after a reboot")?;

    let outcome = &mut cluster.outcome;
    let first_day = FirstDay { kubectl: &kubectl, node: name };
    first_day.an_administrator_observes_the_node(outcome)?;
    first_day.pods_get_what_they_ask(outcome)?;
    first_day.pods_live_as_they_should(outcome)?;
    first_day.an_administrator_drains_the_node(outcome)?;
    addons::deploy(site, &cluster.plane, ProxyMode::Iptables, PODS)?;
    first_day.kube_proxy_restarts(outcome)?;
    client.works(outcome, " with iptables")?;
    cluster.outcome.summary = format!("{} claims", cluster.outcome.passed);
    Ok(cluster.outcome)
}

/// The node's image, and ports of the loopback that lead to the node.
struct Lab<'a> {
    site: &'a Site<'a>,
    project: PathBuf,
    ports: Ports,
    kubelet: u16,
    node_port: u16,
    metrics: u16,
}

impl<'a> Lab<'a> {
    /// Makes the recipe in a copy of the checkout.
    fn new(site: &'a Site<'a>) -> Result<Self> {
        let project = site.root.join("out/ci").join(WORKLOADS);
        site.copy_to(&project)?;
        recipe::inherit(site, &project, WORKLOADS, SINGLE, RECIPE)?;
        let ports = Ports { place: free_port()?, socket: free_port()? };
        let [kubelet, node_port, metrics] = [free_port()?, free_port()?, free_port()?];
        Ok(Lab { site, project, ports, kubelet, node_port, metrics })
    }

    fn boot(&self, disk: &Path, log: &str) -> Result<NodeUnderTest<'a>> {
        Machine::of_recipe_in(self.site, &self.project, WORKLOADS, log)?
            .keep(disk)
            .disk_size(DISK_MIB)
            .forward(self.ports.place, probe::PLACE)
            .forward(self.ports.socket, probe::SOCKET)
            .forward(self.kubelet, serving::PORT)
            .forward(self.node_port, client::NODE_PORT)
            .forward(self.metrics, metrics::NODE_PORT)
            .boot()
    }
}
