//! A node takes its document from a second disk, and a recovery document in its place.

use super::data::Data;
use super::kept_disk::KeptDisk;
use super::machine::Machine;
use super::node::NodeUnderTest;
use crate::check::Outcome;
use crate::image::{RECIPE, image_in};
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The recipe with the pod that reads volumes, and the keys whose release key signs documents.
const NAME: &str = "volumes";

const DOCUMENT: &str = "hostname = \"from-a-volume\"\n";
const RECOVERY: &str = "hostname = \"recovered\"\n";

/// The identifier of the machine that is recovered.
const UUID: &str = "4c4c4544-0051-3610-8052-b4c04f4e3332";

/// Parts of the lines of the node with a signed document, in their order. The kernel chooses the
/// names of disks.
const ACCEPTED: [&str; 4] = [
    "init: bootstrap: looks for a node document in this order: volumes (NoCloud, config drive)",
    " has a node document that the release key has signed",
    "init: bootstrap: placed as /etc/osbuild/node.toml",
    "init: bootstrap: the node uses it",
];
/// Parts of the lines of a node that has a document, with a recovery document.
const REPLACED: [&str; 3] =
    [", and which may replace another one", ACCEPTED[2], "init: bootstrap: the node uses it"];
/// The line of that node at its next boot, from which the volume was not taken.
const KEPT: &str = "init: bootstrap: /etc/osbuild/node.toml is that of the instance `4c4c4544-";
/// A part of the line of the node with an unsigned document.
const REFUSED: &str = ": user-data: it is not signed";

/// A node whose recipe has the pod `bootstrap-volume` refuses an unsigned document on the NoCloud
/// volume of its second disk, and gets ready. It places the same document once it is signed.
/// Another one that was signed to replace that takes its place, once.
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
    let disk = KeptDisk::in_project(&project, NAME)?;
    let boot = |log: &str, volume: &Path, lines: &[&str]| -> Result<()> {
        let mut node = boot(site, &image, &disk, volume, log)?;
        lines.iter().try_for_each(|line| node.wait_until_printed(line))?;
        node.ready()?;
        node.power_off()
    };
    boot("volumes-unsigned", &volume(site, &project, "node.toml")?, &[REFUSED])?;
    boot("volumes-signed", &signed, &ACCEPTED)?;
    write(&project.join("recovery.toml"), RECOVERY)?;
    let words = ["--key", NAME, "--machine", UUID, "--replace"];
    osbuild("volumes-recovery", &[&["node", "sign", "recovery.toml"], &words[..]].concat())?;
    let recovery = volume(site, &project, "recovery.signed")?;
    boot("volumes-recovery", &recovery, &REPLACED)?;
    boot("volumes-recovered", &recovery, &[KEPT])?;
    let document = Data::of(site, disk.path())?.read("osbuild/node.toml")?;
    if document.as_deref() != Some(RECOVERY) {
        return Err(Error::build("DATA has another document").cause(format!("{document:?}")));
    }
    Ok(Outcome { passed: ACCEPTED.len() + REPLACED.len() + 3, ..Outcome::holds(REFUSED) })
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
    disk: &KeptDisk,
    volume: &Path,
    log: &str,
) -> Result<NodeUnderTest<'a>> {
    let drive = format!("if=none,id=seed,format=raw,readonly=on,file={}", volume.display());
    let device = "virtio-blk-pci,drive=seed";
    let arguments = ["-drive", &drive, "-device", device, "-uuid", UUID];
    Machine::new(site, image, log).keep(disk.path()).arguments(arguments).start()
}
