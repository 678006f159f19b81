//! Resources mount a tmpfs, a folder in a second place, and a volume on the node.

use super::node::{Node, yaml};
use crate::check::Outcome;
use osbuild::error::Result;

const MOUNTS: &str = "Mounts";
const STATUSES: &str = "MountStatuses";
const ID: &str = "scratch";
const SPEC: &str = "{type: tmpfs, source: scratch, target: /run/mnt/scratch, options: [size=1m]}";
/// A folder that the recipe declares, in a second place.
const SHOWN: &str = "shown";
const BIND: &str = "{type: bind, source: /opt/credential-providers/bin, target: /run/mnt/shown}";
/// A volume in a folder of DATA.
const VOLUMES: &str = "Volumes";
const VOLUME_STATUSES: &str = "VolumeStatuses";
const FILES: &str = "files";
const VOLUME: &str = "{name: files, folder: true}";
/// The same type at a path that the image does not allow.
const ELSEWHERE: &str = "{type: tmpfs, source: scratch, target: /run/osbuild}";

/// They are mounted, and another one is refused.
pub fn is_mounted(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(MOUNTS, ID, SPEC)?;
    has_status(node, ID, "mounted: true", "a resource mounts a tmpfs", outcome)?;
    node.create(MOUNTS, SHOWN, BIND)?;
    has_status(node, SHOWN, "mounted: true", "a resource shows a folder elsewhere", outcome)?;
    node.create(VOLUMES, FILES, VOLUME)?;
    has_volume(node, "a resource mounts a folder of DATA", outcome)?;
    node.create(MOUNTS, "elsewhere", ELSEWHERE)?;
    let reason = "the image allows no mount";
    has_status(node, "elsewhere", reason, "a target that is not allowed is an error", outcome)?;
    node.destroy(MOUNTS, "elsewhere")
}

/// They are mounted after a power cut, and go with their resources.
pub fn outlasts_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, ID, "mounted: true", "a mount outlasts a power cut", outcome)?;
    has_status(node, SHOWN, "mounted: true", "so does a folder shown elsewhere", outcome)?;
    has_volume(node, "so does a volume", outcome)?;
    let all =
        [(MOUNTS, STATUSES, ID), (MOUNTS, STATUSES, SHOWN), (VOLUMES, VOLUME_STATUSES, FILES)];
    for (type_name, statuses, id) in all {
        node.destroy(type_name, id)?;
        let is_gone = node.is_gone(statuses, id)?;
        let claim = format!("the mount of `{id}` goes with its resource");
        outcome.check(&claim, is_gone, || "it has a status".into());
    }
    Ok(())
}

fn has_volume(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_mounted = |yaml: &str| yaml.contains("phase: mounted");
    let status = node.resource_with(VOLUME_STATUSES, FILES, is_mounted)?;
    outcome.check(claim, is_mounted(yaml(&status)), || status.to_string());
    Ok(())
}

fn has_status(node: &Node, id: &str, text: &str, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let status = node.resource_with(STATUSES, id, |yaml| yaml.contains(text))?;
    outcome.check(claim, yaml(&status).contains(text), || status.to_string());
    Ok(())
}
