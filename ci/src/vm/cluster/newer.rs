//! A node with the peg's kubelet joins control planes of the two minors after the peg.

use super::addons::{self, ProxyMode};
use super::control_plane::ControlPlane;
use super::joining::join;
use super::kubectl::Kubectl;
use super::lab::{Lab, PODS};
use super::minor::Minor;
use super::registry::Registry;
use super::workloads::DEPLOYMENT;
use super::workloads::client::Client;
use super::{Cluster, images, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::Result;

/// The minors, and the recipe of the node that joins each.
const NODES: [(Minor, &str); 2] = [(Minor::Next, "joins-next"), (Minor::Newest, "joins-newest")];

/// A node joins each control plane, and runs kube-proxy of that minor, CoreDNS and a Deployment
/// behind a Service. After a reboot it is the same node, and all of it works again.
pub fn a_node_joins_the_two_minors_after_its_own(site: &Site) -> Result<Outcome> {
    let (mut outcome, mut versions) = (Outcome::default(), Vec::new());
    for (minor, recipe) in NODES {
        outcome = joins(site, minor, recipe, outcome)?;
        versions.push(minor.version(site)?);
    }
    outcome.summary = format!("{}, {} claims", versions.join(" and "), outcome.passed);
    Ok(outcome)
}

/// Adds the claims about one minor to `outcome`.
fn joins(site: &Site, minor: Minor, recipe: &'static str, outcome: Outcome) -> Result<Outcome> {
    let version = minor.version(site)?;
    let lab = Lab::new(site, recipe)?;
    let mut cluster = Cluster { plane: ControlPlane::of_minor(site, minor)?, outcome };
    let registry = Registry::start(site, cluster.plane.authority())?;
    registry.push_all(site, &[images::kube_proxy(site, &site.store()?, minor)?])?;
    cluster.plane.egress().route(serving::ADDRESS, lab.kubelet);
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    let serves = kubectl.output(&["get", "--raw", "/version"])?;
    cluster.outcome.check(
        &format!("the API server is {version}"),
        serves.contains(&format!("\"{version}\"")),
        || serves,
    );

    let mut node = lab.machine(&format!("{recipe}-first"))?.boot()?;
    join(&cluster.plane, registry.node_files(cluster.plane.authority())?, &lab.ports)?;
    let first = cluster.ready_node(&mut node, None)?;
    let (name, peg) = (text(&first, "/metadata/name"), Minor::Peg.version(site)?);
    let kubelet = text(&first, "/status/nodeInfo/kubeletVersion");
    cluster.outcome.check("the kubelet is of the peg", kubelet == peg, || kubelet.to_owned());
    serving::the_cluster_signs_it(&kubectl, name, &mut cluster.outcome)?;
    addons::deploy(site, &cluster.plane, ProxyMode::Nftables, PODS)?;
    kubectl.apply(DEPLOYMENT)?;
    let client = Client { kubectl: &kubectl, node_port: lab.node_port };
    client.rolls_out(&mut cluster.outcome)?;
    client.works(&mut cluster.outcome, &format!(" at {version}"))?;
    node.power_off()?;

    let mut node = lab.machine(&format!("{recipe}-again"))?.boot()?;
    let second = cluster.ready_node(&mut node, Some(&first))?;
    cluster.is_the_same(&first, &second)?;
    client.works(&mut cluster.outcome, &format!(" at {version} after a reboot"))?;
    node.power_off()?;
    Ok(cluster.outcome)
}
