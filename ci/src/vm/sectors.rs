//! A disk with sectors of 4096 bytes that `osbuild flash` has written.

use super::machine::Machine;
use crate::check::Outcome;
use crate::disk_file::{self, LoopDevice};
use crate::image::RECIPE;
use crate::recipe;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::keys::{DEV, Keys};
use std::fs;
use std::path::Path;

/// The name of the board, the recipe, and the copy of the checkout.
const NAME: &str = "sectors";

const SECTOR_SIZE: u32 = 4096;

/// Size of the disk: larger than the image, so that the partition table has to be adjusted.
const DISK_SIZE: u64 = 2 << 30;

/// `init`'s line when it has grown DATA's file system to the partition that flash enlarged.
const GROWN: &str = "init: data: grown from ";

/// `osbuild flash` writes an image for sectors of 4096 bytes to a disk; `osbuild verify` accepts
/// the disk and sets its identifiers aside; the disk boots to READY with Secure Boot enforced.
pub fn a_flashed_disk_of_large_sectors_boots(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(NAME);
    site.copy_to(&project)?;
    write_recipe(site, &project)?;
    let file = project.join("disk");
    disk_file::create(&file, DISK_SIZE)?;
    let disk = LoopDevice::writable(site, &file, SECTOR_SIZE)?;
    let flash = ["flash", NAME, "--device", disk.path(), "--device", disk.path(), "--yes"];
    site.finish("sectors-flash", site.osbuild()?.current_dir(&project).args(flash))?;
    let certificate = project.join("keys/dev/db.crt").display().to_string();
    let verify = ["verify", disk.path(), "--cert", &certificate, "--against", NAME];
    let verified =
        site.finish("sectors-verify", site.osbuild()?.current_dir(&project).args(verify))?;
    if !verified.output.contains("ignoring what is specific to a disk: the GUID of the disk") {
        return Err(verified.failure("`osbuild verify` does not list the disk's identifiers"));
    }
    drop(disk);
    let boot = Machine::new(site, &file, NAME)
        .sector_size(SECTOR_SIZE)
        .trusting(Keys::named(&project, DEV)?.trust()?)
        .run_until_ready()?;
    let log = site.log(NAME);
    let console =
        fs::read_to_string(&log).or_build(|| format!("cannot read `{}`", log.display()))?;
    if !console.contains(GROWN) {
        return Err(Error::build("DATA has not grown to the disk")
            .cause(format!("the console is in `{}`", log.display())));
    }
    fs::remove_file(&file).or_build(|| "cannot remove a disk".to_owned())?;
    Ok(Outcome::holds(boot.summary()))
}

/// A board that differs from the usual one only in its sector size, and a recipe for it.
fn write_recipe(site: &Site, project: &Path) -> Result<()> {
    // The smallest FAT32 file system on sectors of 4096 bytes has 257 MiB.
    let board =
        format!("inherit = \"{RECIPE}\"\nsector-size = {SECTOR_SIZE}\nesp-size-mib = 260\n");
    let file = project.join("boards").join(format!("{NAME}.toml"));
    fs::write(&file, board).or_build(|| format!("cannot write `{}`", file.display()))?;
    recipe::inherit(site, project, NAME, RECIPE, &format!("board = \"{NAME}\"\n"))
}
