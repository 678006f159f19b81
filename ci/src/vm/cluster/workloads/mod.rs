//! The workloads of a cluster's first day, with unmodified software: images from a registry,
//! kube-proxy and CoreDNS as kubeadm deploys them, and the real `kubectl`.

mod claimed_devices;
pub mod client;
mod first_day;

use super::addons::{self, ProxyMode};
use super::control_plane::ControlPlane;
use super::joining::join;
use super::kubectl::Kubectl;
use super::lab::{Lab, PODS};
use super::registry::Registry;
use super::{Cluster, metrics, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use client::Client;
use first_day::FirstDay;
use osbuild::error::Result;

/// The objects of this check.
pub const DEPLOYMENT: &str = include_str!("deployment.yaml");

/// A node pulls the images of kube-proxy, CoreDNS and a Deployment from a registry that it knows by
/// files on DATA alone. A client reaches the pods through their Service, `kubectl` reaches the
/// client, and after a reboot, with a second disk, all of this works again. The node is observed
/// through the API. Then pods get the volumes, limits and users that they ask for, one of them the
/// disk as it is, and another a device that it claims; a budget forbids to drain the node, and
/// kube-proxy changes to iptables. In the end the budget allows a drain, which empties the node.
pub fn a_stock_deployment_works_and_survives_a_reboot(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "workloads")?;
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start(site, cluster.plane.authority())?;
    let refuses = registry.refuses_strangers(site)?;
    cluster.outcome.claim("the registry asks for a password", refuses);
    cluster.plane.egress().route(serving::ADDRESS, lab.kubelet);
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    let mut node = lab.machine("workloads-first")?.boot()?;
    join(&cluster.plane, registry.node_files(cluster.plane.authority())?, &lab.ports)?;
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

    let mut node = lab.machine("workloads-again")?.arguments(lab.second_disk()?).boot()?;
    cluster.ready_node(&mut node, Some(&first))?;
    client.works(&mut cluster.outcome, " after a reboot")?;

    let outcome = &mut cluster.outcome;
    let first_day = FirstDay { kubectl: &kubectl, plane: &cluster.plane, node: name };
    first_day.an_administrator_observes_the_node(outcome)?;
    first_day.pods_get_what_they_ask(outcome)?;
    first_day.a_pod_has_a_raw_device(outcome)?;
    claimed_devices::a_pod_has_the_device_that_it_claims(site, &kubectl, outcome)?;
    first_day.pods_live_as_they_should(outcome)?;
    first_day.an_administrator_drains_the_node(outcome)?;
    addons::deploy(site, &cluster.plane, ProxyMode::Iptables, PODS)?;
    first_day.kube_proxy_restarts(outcome)?;
    client.works(outcome, " with iptables")?;
    first_day.an_administrator_empties_the_node(outcome)?;
    cluster.outcome.summary = format!("{} claims", cluster.outcome.passed);
    Ok(cluster.outcome)
}
