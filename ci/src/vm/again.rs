//! A node that lost its power and boots again from the same disk.

use super::data::Data;
use super::kept::Kept;
use super::node::Node;
use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild::ship::keys::DEV;

/// Size of its disk: larger than the image, so that the first boot grows DATA.
const DISK_MIB: &str = "2048";

/// Says that a node has run on a disk that is verified.
const HAS_RUN: &str = "--has-run";

/// What `init` says when it has grown DATA.
const GROWN: &str = "init: data: grown from ";

/// What it says when it has mended the superblock of DATA.
const MENDED: &str = "init: data: a power cut tore its superblock, which is mended";

/// The power goes when a node is ready; it boots again to READY, grows nothing a second time, and
/// has kept the logs of the boot before. The first boot has given the disk identifiers that the
/// image has not, and the second one leaves them. It finds a superblock of which the disk has
/// written one sector, without which Linux would mount nothing. All else of it is what the recipe
/// gives. e2fsck finds nothing in DATA but the journal to replay.
pub fn a_power_cut_costs_nothing_but_the_boot(site: &Site) -> Result<Verdict> {
    let kept = Kept::of(site, RECIPE);
    let flags = ["--keep", "--disk-size", DISK_MIB];
    let first = Node::boot(site, "before-the-power-cut", RECIPE, &flags)?.said()?;
    if !first.contains(GROWN) {
        return Err(Error::build("the first boot has not grown DATA"));
    }
    let own = kept.identifiers(site)?;
    if !own.is_disjoint(&kept.identifiers_of_image(site)?) {
        return Err(Error::build("the disk has identifiers of its image").cause(format!("{own:?}")));
    }
    kept.tear_superblock()?;
    let second = Node::boot(site, "after-the-power-cut", RECIPE, &flags)?.said()?;
    if second.contains(GROWN) {
        return Err(Error::build("the second boot has grown DATA again"));
    }
    if !second.contains(MENDED) {
        return Err(Error::build("the second boot has not mended the superblock of DATA"));
    }
    if kept.identifiers(site)? != own {
        return Err(Error::build("the second boot has changed the disk's identifiers again"));
    }
    is_what_its_recipe_gives(site, &kept)?;
    let data = Data::of(site, kept.path())?;
    if kept.identifiers_of_image(site)?.contains(&data.identifier()?) {
        return Err(Error::build("the file system on DATA has the identifier of its image"));
    }
    let log = data.read("log/init.log.1")?.unwrap_or_default();
    // Its last lines went with the power.
    if !log.contains(GROWN) {
        return Err(Error::build("the log of the boot before is not there").cause(log));
    }
    Ok(Verdict { passed: 7, ..Verdict::default() })
}

/// `osbuild verify` finds on the disk what the recipe gives, and what the node has written only
/// where it is not told that one has run.
fn is_what_its_recipe_gives(site: &Site, kept: &Kept) -> Result<()> {
    let disk = kept.path().display().to_string();
    let words = ["verify", &disk, "--key", DEV, "--against", RECIPE];
    let ran = site.run("verify-of-a-disk", site.osbuild()?.args(words))?;
    if ran.code != Some(4) || !ran.said.contains(HAS_RUN) {
        return Err(ran.failure("`osbuild verify` does not find what the node has written"));
    }
    let ran = site.finish("verify-of-a-node", site.osbuild()?.args(words).arg(HAS_RUN))?;
    match ran.said.contains("set aside, as a disk has its own: the GUID of the disk, ")
        && ran.said.contains("what is in DATA")
    {
        true => Ok(()),
        false => Err(ran.failure("`osbuild verify` does not say what it sets aside")),
    }
}
