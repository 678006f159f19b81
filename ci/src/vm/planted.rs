//! A node whose disk was in somebody else's machine.

use super::data::{Data, on_data};
use super::kept::Kept;
use super::kinds;
use super::node::Node;
use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild_abi::paths::CONTAINERD_BLOBS;

/// Where containerd unpacks images on the node, a numbered folder each.
const SNAPSHOTS: &str = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots";

/// What is put in the place of each program and each blob. Nothing can be started that has a part
/// of it.
const PLANTED: &str = "planted";

/// What the kubelet remembers of its containers, as one with another policy leaves it: it ends with
/// an error as soon as it reads that.
const MEMORIES: [(&str, &str); 2] = [
    ("kubelet/cpu_manager_state", r#"{"policyName":"static","defaultCpuSet":"0","checksum":1}"#),
    ("kubelet/memory_manager_state", r#"{"policyName":"Static","machineState":{},"checksum":1}"#),
];

/// With the power off, all that containerd keeps on DATA of the node's own pods is replaced, what
/// was unpacked and what it was unpacked from. The next boot gets ready: it runs what is in the
/// signed root. And it does so with another release's leftovers in the way, and with those of
/// another release's kubelet.
pub fn system_pods_do_not_come_from_data(site: &Site) -> Result<Verdict> {
    let kept = Kept::of(site, RECIPE);
    drop(Node::boot(site, "before-planting", RECIPE, &["--keep"])?);
    let data = Data::of(site, kept.path())?;
    let planted = plant(&data)?;
    mislead_the_kubelet(&data)?;
    let places = kinds::plant(&data, 0)?;
    data.put_into(kept.path())?;
    let said = Node::boot(site, "after-planting", RECIPE, &["--keep"])?.said()?;
    kinds::were_moved(&said, 0)?;
    let data = Data::of(site, kept.path())?;
    for blob in data.files(&on_data(CONTAINERD_BLOBS))? {
        if data.read(&blob)?.as_deref() == Some(PLANTED) {
            return Err(
                Error::build(format!("on DATA {blob} is still what was planted")).cause(said)
            );
        }
    }
    Ok(Verdict {
        passed: 2,
        said: format!("{planted} files replaced, something in the way in {places} places"),
        ..Verdict::default()
    })
}

/// Whatever kind of file stands where `init` or a daemon wants something else on DATA, the node
/// gets ready.
pub fn a_node_gets_ready_whatever_is_planted(site: &Site) -> Result<Verdict> {
    let kept = Kept::of(site, RECIPE);
    drop(Node::boot(site, "before-kinds", RECIPE, &["--keep"])?);
    for turn in 1..kinds::TURNS {
        let data = Data::of(site, kept.path())?;
        kinds::plant(&data, turn)?;
        data.put_into(kept.path())?;
        let said = Node::boot(site, &format!("kinds-{turn}"), RECIPE, &["--keep"])?.said()?;
        kinds::were_moved(&said, turn)?;
    }
    Ok(Verdict { passed: kinds::TURNS - 1, ..Verdict::default() })
}

/// Replaces every program of every unpacked image, and every blob. Gives how many files that were.
fn plant(data: &Data) -> Result<usize> {
    let mut programs = Vec::new();
    for snapshot in data.list(&on_data(SNAPSHOTS))? {
        programs.extend(data.files(&format!("{}/{}/fs", on_data(SNAPSHOTS), snapshot.name))?);
    }
    let blobs = data.files(&on_data(CONTAINERD_BLOBS))?;
    // The pause image and at least two pods: a program, and three blobs.
    if programs.len() < 3 || blobs.len() < 9 {
        return Err(Error::build(format!(
            "{} programs and {} blobs are on DATA",
            programs.len(),
            blobs.len()
        )));
    }
    let all = [programs, blobs].concat();
    data.write(&all.iter().map(String::as_str).collect::<Vec<_>>(), PLANTED)?;
    Ok(all.len())
}

/// Replaces what the kubelet remembers.
fn mislead_the_kubelet(data: &Data) -> Result<()> {
    MEMORIES.iter().try_for_each(|(path, text)| data.write(&[path], text))
}
