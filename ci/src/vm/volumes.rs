//! A node takes its document from a second disk.

use super::machine::Machine;
use super::node::NodeUnderTest;
use crate::check::Outcome;
use crate::image::{RECIPE, image_in};
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The recipe with the pod that reads volumes, and the keys whose release key signs documents.
const NAME: &str = "volumes";

const DOCUMENT: &str = "hostname = \"from-a-volume\"\n";

/// Parts of the lines of the node with a signed document, in their order. The kernel chooses the
/// names of disks.
const ACCEPTED: [&str; 4] = [
    "init: bootstrap: looks for a node document in this order: volumes (NoCloud, config drive)",
    " has a node document that the release key has signed",
    "init: bootstrap: placed as /etc/osbuild/node.toml",
    "init: bootstrap: the node uses it",
];
/// A part of the line of the node with an unsigned document.
const REFUSED: &str = ": user-data: it is not signed";

/// A node whose recipe has the pod `bootstrap-volume` places the signed document of a NoCloud
/// volume on its second disk. Another one refuses the same document without a signature, and
/// gets ready.
pub fn a_node_takes_a_signed_document_from_its_second_disk(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(NAME);
    site.copy_to(&project)?;
    let osbuild = |log: &str, words: &[&str]| {
        let mut osbuild = site.osbuild()?;
        site.finish(log, osbuild.current_dir(&project).args(words)).map(drop)
    };
    if !project.join("keys").join(NAME).join("root.json").exists() {
        osbuild("volumes-keys", &["keys", "new", NAME])?;
    }
    let more = format!(
        "\n[pods]\nbootstrap = {{ component = \"bootstrap-volume\" }}\n\n\
         [volumes]\nroot = \"keys/{NAME}/root.json\"\n"
    );
    recipe::inherit(site, &project, NAME, RECIPE, &more)?;
    let image = image_in(site, &project, NAME)?;
    write(&project.join("node.toml"), DOCUMENT)?;
    osbuild("volumes-sign", &["node", "sign", "node.toml", "--key", NAME])?;
    let signed = volume(site, &project, "node.signed")?;
    let mut node = boot(site, &image, &signed, "volumes-signed")?;
    for line in ACCEPTED {
        node.wait_until_printed(line)?;
    }
    node.ready()?;
    node.power_off()?;
    let unsigned = volume(site, &project, "node.toml")?;
    let mut node = boot(site, &image, &unsigned, "volumes-unsigned")?;
    node.wait_until_printed(REFUSED)?;
    node.ready()?;
    node.power_off()?;
    Ok(Outcome { passed: ACCEPTED.len() + 1, ..Outcome::holds(REFUSED) })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).or_build(|| format!("cannot write `{}`", path.display()))
}

/// A NoCloud volume in ISO 9660 whose user data is the file `name` of the project.
fn volume(site: &Site, project: &Path, name: &str) -> Result<PathBuf> {
    let folder = project.join(format!("{name}.volume"));
    fs::create_dir_all(&folder).or_build(|| format!("cannot make `{}`", folder.display()))?;
    fs::copy(project.join(name), folder.join("user-data"))
        .or_build(|| "cannot copy the user data".to_owned())?;
    write(&folder.join("meta-data"), "instance-id: vm-1\n")?;
    let image = project.join(format!("{name}.iso"));
    let mut make = Command::new("genisoimage");
    make.args(["-quiet", "-volid", "cidata", "-joliet", "-rock", "-o"]).arg(&image).arg(&folder);
    site.finish("volumes-iso", &mut make)?;
    Ok(image)
}

fn boot<'a>(
    site: &'a Site<'a>,
    image: &Path,
    volume: &Path,
    log: &str,
) -> Result<NodeUnderTest<'a>> {
    let drive = format!("if=none,id=seed,format=raw,readonly=on,file={}", volume.display());
    let device = "virtio-blk-pci,drive=seed";
    Machine::new(site, image, log).arguments(["-drive", &drive, "-device", device]).start()
}
