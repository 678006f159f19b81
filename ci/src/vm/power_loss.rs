//! A node that loses its power and boots again from the same disk.

use super::data::Data;
use super::kept_disk::KeptDisk;
use super::machine::Machine;
use crate::check::Outcome;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild::ship::keys::DEV;

/// Size of the disk: larger than the image, so that the first boot grows DATA.
const DISK_MIB: u64 = 2048;

/// The flag of `osbuild verify` for a disk that a node has written to.
const HAS_RUN: &str = "--has-run";

/// `init`'s lines when it has grown DATA, and when it has repaired the superblock of DATA.
const GROWN: &str = "init: data: grown from ";
const REPAIRED: &str = "init: data: a power cut tore its superblock, which is mended";

/// The power fails when a node is ready, after one of the two sectors of DATA's superblock is
/// written: Linux would not mount such a file system. The node boots to READY again, does not grow
/// DATA a second time, and has kept the logs of the first boot. The first boot gave the disk
/// identifiers other than the image's; the second boot keeps them. Everything else on the disk
/// matches the recipe, and DATA needs no repair but the replay of its journal.
pub fn a_node_boots_again_after_a_power_cut(site: &Site) -> Result<Outcome> {
    let disk = KeptDisk::of(site, RECIPE)?;
    let boot = |log: &str| {
        let machine = Machine::of_recipe(site, RECIPE, log)?;
        machine.keep(disk.path()).disk_size(DISK_MIB).boot()?.console()
    };
    if !boot("before-the-power-cut")?.contains(GROWN) {
        return Err(Error::build("the first boot has not grown DATA"));
    }
    let own = disk.identifiers(site)?;
    if !own.is_disjoint(&disk.identifiers_of_image(site)?) {
        return Err(Error::build("the disk has identifiers of its image").cause(format!("{own:?}")));
    }
    disk.tear_superblock()?;
    let second = boot("after-the-power-cut")?;
    if second.contains(GROWN) {
        return Err(Error::build("the second boot has grown DATA again"));
    }
    if !second.contains(REPAIRED) {
        return Err(Error::build("the second boot has not repaired the superblock of DATA"));
    }
    if disk.identifiers(site)? != own {
        return Err(Error::build("the second boot has changed the disk's identifiers again"));
    }
    matches_its_recipe(site, &disk)?;
    let data = Data::of(site, disk.path())?;
    if disk.identifiers_of_image(site)?.contains(&data.identifier()?) {
        return Err(Error::build("the file system on DATA has the identifier of its image"));
    }
    let log = data.read("log/init.log.1")?.unwrap_or_default();
    // The power cut took its last lines.
    if !log.contains(GROWN) {
        return Err(Error::build("the log of the first boot is missing").cause(log));
    }
    Ok(Outcome { passed: 7, ..Outcome::default() })
}

/// `osbuild verify` accepts the disk only with [`HAS_RUN`], which excludes what the node has
/// written.
fn matches_its_recipe(site: &Site, disk: &KeptDisk) -> Result<()> {
    let path = disk.path().display().to_string();
    let words = ["verify", &path, "--key", DEV, "--against", RECIPE];
    let ran = site.run("verify-of-a-disk", site.osbuild()?.args(words))?;
    if ran.code != Some(4) || !ran.output.contains(HAS_RUN) {
        return Err(ran.failure("`osbuild verify` does not find what the node has written"));
    }
    let ran = site.finish("verify-of-a-node", site.osbuild()?.args(words).arg(HAS_RUN))?;
    match ran.output.contains("ignoring what is specific to a disk: the GUID of the disk, ")
        && ran.output.contains("the contents of DATA")
    {
        true => Ok(()),
        false => Err(ran.failure("`osbuild verify` does not list what it ignores")),
    }
}
