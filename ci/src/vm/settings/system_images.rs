//! A resource has the node keep an image.

use super::image_server::ImageServer;
use super::node::{Node, TIMEOUT, yaml};
use super::{Repair, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;
use std::thread::sleep;
use std::time::{Duration, Instant};

const IMAGES: &str = "SystemImages";
const STATUSES: &str = "SystemImageStatuses";
const ID: &str = "tools";
/// The folder on DATA with containerd's settings of registries.
const HOSTS: &str = "/etc/containerd/certs.d";
/// How long it may be away: two children start on an emulated processor, and it is pulled.
const REPAIR: Repair = Repair { within: Duration::from_secs(3), aim: Duration::from_secs(1) };
const PAUSE: Duration = Duration::from_millis(50);

/// The node pulls it and pins it, and pulls it again after it was removed.
pub fn is_kept(node: &Node, images: &ImageServer, outcome: &mut Outcome) -> Result<()> {
    let (registry, image) = (images.registry(), images.image());
    // No setting has images pulled without TLS. The file on DATA can.
    let hosts = format!("{HOSTS}/{registry}/hosts.toml");
    node.place(&hosts, 0o600, format!("server = \"http://{registry}\"\n"))?;
    node.create(IMAGES, ID, &format!("image: {image}"))?;
    has_status(node, images, "the node pulls an image that a resource names", outcome)?;
    let found = node.ask_containerd("ImageStatus", &image)?;
    outcome.check("the kubelet finds it pinned", is_pinned(&found), || found.to_string());
    node.ask_containerd("RemoveImage", &image)?;
    let began = Instant::now();
    while !is_pinned(&node.ask_containerd("ImageStatus", &image)?) && began.elapsed() < TIMEOUT {
        sleep(PAUSE);
    }
    let took = Some(began.elapsed());
    was_repaired("an image that was removed is there again", took, REPAIR, outcome);
    let local = "{image: 'localhost/pause:1'}";
    let refused = node.create(IMAGES, "own", local).is_err();
    outcome.check("an image of the release is refused", refused, || local.to_owned());
    Ok(())
}

/// The node keeps it after a power cut, and the kubelet may remove it without the resource.
pub fn outlasts_a_power_cut_and_goes(
    node: &Node,
    images: &ImageServer,
    outcome: &mut Outcome,
) -> Result<()> {
    has_status(node, images, "the node keeps the image after a power cut", outcome)?;
    let found = node.ask_containerd("ImageStatus", &images.image())?;
    outcome.check("it is pinned then", is_pinned(&found), || found.to_string());
    node.destroy(IMAGES, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("its status goes with its resource", is_gone, || "it has a status".into());
    let began = Instant::now();
    while is_pinned(&node.ask_containerd("ImageStatus", &images.image())?)
        && began.elapsed() < TIMEOUT
    {
        sleep(PAUSE);
    }
    let found = node.ask_containerd("ImageStatus", &images.image())?;
    let is_free = found["image"]["id"].is_string() && !is_pinned(&found);
    outcome.check("it stays, and is not pinned", is_free, || found.to_string());
    Ok(())
}

fn is_pinned(found: &serde_json::Value) -> bool {
    found["image"]["pinned"] == true
}

fn has_status(node: &Node, images: &ImageServer, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let digest = format!("digest: {}", images.digest());
    let is_kept = |yaml: &str| yaml.contains("kept: true") && yaml.contains("setBy: api");
    let status = node.resource_with(STATUSES, ID, is_kept)?;
    let text = yaml(&status).replace(">-\n  ", "");
    outcome.check(claim, is_kept(&text) && text.contains(&digest), || status.to_string());
    Ok(())
}
