//! The installer's UKI by UEFI HTTP boot, on a machine without a stick. Python's web server serves
//! it, unmodified.

use super::stick_machine::BootOrder;
use super::{RECIPE, TIMEOUT, boots_the_disk};
use crate::check::Outcome;
use crate::disk_file;
use crate::image::image_in;
use crate::recipe;
use crate::site::Site;
use crate::vm::machine::{HOST, Machine};
use crate::vm::probe::free_port;
use crate::vm::web::Web;
use osbuild::error::{Context, Result};
use osbuild::plan::Bus;
use osbuild::produce::out::UKI;
use osbuild::ship::keys::{DEV, Keys};
use osbuild_abi::console::{INSTALLER_DONE, SLOT_GOOD};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The recipe, and the folder of the copy of the checkout.
const NAME: &str = "installer-http";

/// The installer's settings, which are in the image.
const SETTINGS: &str = "unattended = true\ncountdown-s = 1\n\n[disk]\nbus = \"nvme\"\n";

/// Debian's firmware variables, without keys.
const VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// Size of the disk.
const DISK_SIZE: u64 = 1 << 30;

/// Firmware that enforces Secure Boot fetches the UKI from the URI of its boot entry; the machine
/// installs itself and reboots into its disk.
pub fn a_machine_without_a_stick_installs_by_http(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(NAME);
    site.copy_to(&project)?;
    write_recipe(site, &project)?;
    image_in(site, &project, NAME)?;
    let (port, disk) = (free_port()?, project.join("disk.raw"));
    let _web = Web::serve(site, "installer-http-server", &project.join("out").join(NAME), port)?;
    disk_file::create(&disk, DISK_SIZE)?;
    let mut variables = Command::new("virt-fw-vars");
    variables.args([
        "--input",
        VARIABLES,
        "--set-boot-uri",
        &format!("http://{HOST}:{port}/{UKI}"),
        "--output",
    ]);
    site.finish("installer-http-variables", variables.arg(disk.with_extension("variables")))?;
    let mut node = Machine::of_board(site, RECIPE, &disk, NAME)?
        .bus(Bus::Nvme)
        .memory(3072)
        .keep(&disk)
        .trusting(Keys::named(&project, DEV)?.trust()?)
        .arguments(BootOrder::Variables.arguments().iter().copied())
        .timeout(TIMEOUT)
        .start()?;
    node.wait_for(INSTALLER_DONE)?;
    boots_the_disk(&mut node)?;
    node.wait_for(SLOT_GOOD)?;
    node.power_off()?;
    fs::remove_file(&disk).or_build(|| "cannot remove a disk".to_owned())?;
    Ok(Outcome::holds("fetched, installed, rebooted into the disk"))
}

/// A recipe that inherits the installer's, with its own settings.
fn write_recipe(site: &Site, project: &Path) -> Result<()> {
    let settings = format!("recipes/{NAME}-settings.toml");
    fs::write(project.join(&settings), SETTINGS)
        .or_build(|| format!("cannot write `{settings}`"))?;
    recipe::inherit(
        site,
        project,
        NAME,
        RECIPE,
        &format!("\n[installs]\nsettings = \"{settings}\"\n"),
    )
}
