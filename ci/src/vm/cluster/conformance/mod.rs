//! Kubernetes' own tests of a node's job: every case with `[NodeConformance]` in the end-to-end
//! suite of the kubelet's version. `builder/docs/conformance.md` lists them all.

mod images;
mod page;
mod suite;

use super::addons::{self, ProxyMode};
use super::control_plane::ControlPlane;
use super::joining::join;
use super::kubectl::Kubectl;
use super::lab::{Lab, PODS};
use super::registry::Registry;
use super::{Cluster, serving, text};
use crate::check::Outcome;
use crate::image::builds_the_conformance_tests;
use crate::site::Site;
use osbuild::error::{Context, Result};
use page::Page;
use std::fs;
use std::time::Duration;

/// The page with every case, and where the check writes the page that its results would make.
const PAGE: &str = "builder/docs/conformance.md";
const FOUND: &str = "out/ci/conformance.md";

/// How long kube-proxy and CoreDNS may take to be deployed.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The node's memory in MiB, and its processors: several tests run at a time.
const MEMORY_MIB: u64 = 4096;
const PROCESSORS: u32 = 2;

/// A node joins a cluster, and the cases that the page lists as passed pass. The suite skips those
/// that do not apply to the node. The suite has no case that the page does not list.
pub fn a_node_passes_the_tests_of_kubernetes(site: &Site) -> Result<Outcome> {
    builds_the_conformance_tests(site)?;
    let lab = Lab::new(site, "conformance-node")?;
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start(site, cluster.plane.authority())?;
    registry.push_all(site, &images::all(site, &site.store()?)?)?;
    cluster.plane.egress().route(serving::ADDRESS, lab.kubelet);
    let machine = lab.machine("conformance")?.memory(MEMORY_MIB).processors(PROCESSORS);
    let mut node = machine.boot()?;
    join(&cluster.plane, registry.node_files(cluster.plane.authority())?, &lab.ports)?;
    let object = cluster.ready_node(&mut node, None)?;
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    serving::the_cluster_signs_it(&kubectl, text(&object, "/metadata/name"), &mut cluster.outcome)?;
    addons::deploy(site, &cluster.plane, ProxyMode::Nftables, PODS)?;
    for addon in ["daemonset/kube-proxy", "deployment/coredns"] {
        let words = ["-n=kube-system", "rollout", "status", addon, "--timeout=120s"];
        let rolls_out = kubectl.until(TIMEOUT, &words, "successfully rolled out")?;
        cluster.outcome.claim("the cluster's addons run", rolls_out);
    }

    let file = site.root.join(PAGE);
    let text = fs::read_to_string(&file).or_build(|| format!("cannot read `{PAGE}`"))?;
    let page = Page::parse(&text);
    let results = suite::run(site, &kubectl, &page)?;
    fs::write(site.root.join(FOUND), page.with(&results))
        .or_build(|| format!("cannot write `{FOUND}`"))?;
    page.compare(&results, &mut cluster.outcome);
    cluster.outcome.summary = suite::summary(&results);
    Ok(cluster.outcome)
}
