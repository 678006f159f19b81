//! A node whose DATA was changed on another machine while it was powered off.

use super::data::{Data, on_data};
use super::kept_disk::KeptDisk;
use super::machine::Machine;
use super::obstacles;
use crate::check::Outcome;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild_abi::paths::CONTAINERD_BLOBS;

/// Where containerd unpacks images on the node, each in a numbered folder.
const SNAPSHOTS: &str = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots";

/// Replaces each program and each blob, so that it can no longer be executed.
const PLANTED: &str = "planted";

/// The kubelet's checkpoint files, as a kubelet with another policy writes them: the node's own
/// kubelet would end with an error when it reads them.
const CHECKPOINTS: [(&str, &str); 2] = [
    ("kubelet/cpu_manager_state", r#"{"policyName":"static","defaultCpuSet":"0","checksum":1}"#),
    ("kubelet/memory_manager_state", r#"{"policyName":"Static","machineState":{},"checksum":1}"#),
];

/// While the power is off, all that containerd keeps of the node's own pods on DATA is replaced:
/// blobs and unpacked programs. The node becomes ready at the next boot with the images of the
/// signed root, in spite of obstacles and of another kubelet's checkpoints.
pub fn system_pods_do_not_come_from_data(site: &Site) -> Result<Outcome> {
    let disk = KeptDisk::of(site, RECIPE)?;
    boot(site, &disk, "before-planting")?;
    let data = Data::of(site, disk.path())?;
    let planted = plant(&data)?;
    CHECKPOINTS.iter().try_for_each(|(path, text)| data.write(&[path], text))?;
    let places = obstacles::plant(&data, 0)?;
    data.put_into(disk.path())?;
    let console = boot(site, &disk, "after-planting")?;
    obstacles::were_moved(&console, 0)?;
    let data = Data::of(site, disk.path())?;
    for blob in data.files(&on_data(CONTAINERD_BLOBS))? {
        if data.read(&blob)?.as_deref() == Some(PLANTED) {
            return Err(Error::build(format!("the planted {blob} is still on DATA")).cause(console));
        }
    }
    Ok(Outcome {
        passed: 2,
        summary: format!("{planted} files replaced, obstacles in {places} places"),
        ..Outcome::default()
    })
}

/// The node becomes ready with files of any kind in places where `init` or a daemon expects another
/// kind.
pub fn a_node_becomes_ready_with_any_planted_files(site: &Site) -> Result<Outcome> {
    let disk = KeptDisk::of(site, RECIPE)?;
    boot(site, &disk, "before-obstacles")?;
    for turn in 1..obstacles::TURNS {
        let data = Data::of(site, disk.path())?;
        obstacles::plant(&data, turn)?;
        data.put_into(disk.path())?;
        obstacles::were_moved(&boot(site, &disk, &format!("obstacles-{turn}"))?, turn)?;
    }
    Ok(Outcome { passed: obstacles::TURNS - 1, ..Outcome::default() })
}

/// Boots from the disk until the node is ready, cuts the power, and returns the console.
fn boot(site: &Site, disk: &KeptDisk, log: &str) -> Result<String> {
    Machine::of_recipe(site, RECIPE, log)?.keep(disk.path()).boot()?.console()
}

/// Replaces every program of every unpacked image, and every blob, and returns their number.
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
