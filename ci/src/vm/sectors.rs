//! Disks whose sectors have 4096 bytes, and disks that `osbuild flash` has written.

use super::machine::options;
use crate::check::Verdict;
use crate::image::RECIPE;
use crate::loops::Loop;
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::keys::Keys;
use osbuild::ship::vm::machine::SecureBoot;
use osbuild::ship::vm::run::{RunOptions, Until, run};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// The board and the recipe, and the folder of the copy of the checkout.
const NAME: &str = "sectors";

const SECTOR_SIZE: u32 = 4096;

/// Size of the disk: larger than the image, so that its table has to be fitted to it.
const DISK_SIZE: u64 = 2 << 30;

/// How long the node may take to get ready.
const PATIENCE: Duration = Duration::from_secs(300);

/// What `init` says when it has grown DATA's file system to what flash has made of its partition.
const GROWN: &str = "init: data: grown from ";

/// An image for sectors of 4096 bytes boots to READY under Secure Boot, from a disk onto which
/// `osbuild flash` has put it; `osbuild verify` finds no fault with that disk, with its identifiers
/// set aside.
pub fn a_flashed_disk_of_large_sectors_boots(site: &Site) -> Result<Verdict> {
    let project = site.root.join("out/ci").join(NAME);
    site.copy_to(&project)?;
    write_recipe(site, &project)?;
    let file = project.join("disk");
    File::create(&file)
        .and_then(|file| file.set_len(DISK_SIZE))
        .or_build(|| "cannot make a disk".to_owned())?;
    let disk = Loop::over(site, &file, SECTOR_SIZE)?;
    let flash = ["flash", NAME, "--device", disk.device(), "--device", disk.device(), "--yes"];
    site.finish("sectors-flash", site.osbuild()?.current_dir(&project).args(flash))?;
    let certificate = project.join("keys/dev/db.crt").display().to_string();
    let verify = ["verify", disk.device(), "--cert", &certificate, "--against", NAME];
    let verified =
        site.finish("sectors-verify", site.osbuild()?.current_dir(&project).args(verify))?;
    if !verified.said.contains("set aside, as a disk has its own: the GUID of the disk") {
        return Err(verified
            .failure("`osbuild verify` does not say that the disk has identifiers of its own"));
    }
    drop(disk);
    let machine = RunOptions {
        sector_size: SECTOR_SIZE,
        secure_boot: SecureBoot::enforced(Keys::named(&project, "dev")?.trust()?),
        until: Until::Ready,
        timeout: Some(PATIENCE),
        ..options(site, file.clone(), NAME)
    };
    let boot = run(site.report, &machine)?;
    let log = site.log(NAME);
    let said = fs::read_to_string(&log).or_build(|| format!("cannot read `{}`", log.display()))?;
    if !said.contains(GROWN) {
        return Err(Error::build("DATA has not grown to the disk")
            .cause(format!("the console is in `{}`", log.display())));
    }
    fs::remove_file(&file).or_build(|| "cannot remove a disk".to_owned())?;
    Ok(Verdict::holds(boot.summary()))
}

/// A board that differs from the usual one in its sectors, and a recipe for it.
fn write_recipe(site: &Site, project: &Path) -> Result<()> {
    // The least FAT32 on sectors of 4096 bytes has 257 MiB.
    let board =
        format!("inherit = \"{RECIPE}\"\nsector-size = {SECTOR_SIZE}\nesp-size-mib = 260\n");
    let file = project.join("boards").join(format!("{NAME}.toml"));
    fs::write(&file, board).or_build(|| format!("cannot write `{}`", file.display()))?;
    recipe::inherit(site, project, NAME, RECIPE, &format!("board = \"{NAME}\"\n"))
}
