//! Boards of bare machines boot from every bus, beside another disk with a node.

use super::machine::Machine;
use crate::check::Outcome;
use crate::disk_file::{self, LoopDevice};
use crate::image::{RECIPE, image};
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Bus;
use osbuild::ship::keys::{DEV, Keys};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The recipes for bare machines, and the buses of their disks.
const AMD64: (&str, &[Bus]) = ("uefi-amd64", &[Bus::Ahci, Bus::Nvme, Bus::Usb, Bus::VirtioScsi]);
/// Debian's firmware for arm64 has no driver for SATA.
const ARM64: (&str, &[Bus]) = ("uefi-arm64", &[Bus::Nvme, Bus::Usb, Bus::VirtioScsi]);

/// Size of the other disk: slightly larger than the image.
const OTHER_SIZE: u64 = 1 << 30;

/// With Secure Boot enforced the image of a bare machine boots to READY from SATA, NVMe, USB and
/// SCSI. Another disk holds a node that `osbuild flash` wrote, with the same partition names, and
/// the kernel detects it before a stick: no byte of it changes.
pub fn a_bare_machine_boots_from_any_bus_beside_another_disk(site: &Site) -> Result<Outcome> {
    boots_from_any_bus(site, AMD64)
}

/// The image for arm64 does the same from every bus that its firmware supports.
pub fn a_bare_machine_with_arm64_boots_from_any_bus_beside_another_disk(
    site: &Site,
) -> Result<Outcome> {
    boots_from_any_bus(site, ARM64)
}

fn boots_from_any_bus(site: &Site, (recipe, buses): (&str, &[Bus])) -> Result<Outcome> {
    let image = image(site, recipe)?;
    let other = flashed(site)?;
    let names: Vec<_> = buses.iter().map(|bus| bus.name()).collect();
    let mut outcome = Outcome { summary: names.join(", "), ..Outcome::default() };
    for bus in buses.iter().copied() {
        let boots =
            boots_beside(site, recipe, &image, &other, bus).map_err(|error| error.to_string());
        outcome.claim(&format!("it boots from {}", bus.name()), boots);
    }
    fs::remove_file(&other).or_build(|| "cannot remove a disk".to_owned())?;
    Ok(outcome)
}

/// Writes another node to a disk image with `osbuild flash`.
fn flashed(site: &Site) -> Result<PathBuf> {
    image(site, RECIPE)?;
    let path = site.log("other-disk").with_extension("raw");
    disk_file::create(&path, OTHER_SIZE)?;
    let disk = LoopDevice::writable(site, &path, 512)?;
    let flash = ["flash", RECIPE, "--device", disk.path(), "--device", disk.path(), "--yes"];
    site.finish("other-flash", site.osbuild()?.args(flash))?;
    Ok(path)
}

fn boots_beside(site: &Site, recipe: &str, image: &Path, other: &Path, bus: Bus) -> Result<()> {
    let log = format!("{recipe}-{}", bus.name());
    let disk = site.log(&log).with_extension("qcow2");
    let mut create = Command::new("qemu-img");
    create.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).arg(other).arg(&disk);
    site.finish("other-overlay", &mut create)?;
    Machine::of_board(site, recipe, image, &log)?
        .bus(bus)
        .trusting(Keys::named(&site.project(), DEV)?.trust()?)
        .arguments(nvme(&disk))
        .run_until_ready()?;
    let compared =
        site.run("other-after", Command::new("qemu-img").arg("compare").arg(other).arg(&disk))?;
    fs::remove_file(&disk).or_build(|| "cannot remove a disk".to_owned())?;
    match compared.code {
        Some(0) => Ok(()),
        _ => {
            Err(Error::build("the disk that was not booted has changed")
                .cause(compared.output.trim()))
        }
    }
}

/// QEMU's arguments for an NVMe disk, which the kernel detects first and the firmware does not
/// start.
fn nvme(disk: &Path) -> Vec<String> {
    let drive = format!("if=none,id=other,format=qcow2,file={}", disk.display());
    ["-drive", &drive, "-device", "nvme,serial=other,drive=other"].map(str::to_owned).into()
}
