//! Bare machines: they boot from whatever their disk is connected to, and whatever other disk is
//! there.

use super::machine::options_of;
use crate::check::Verdict;
use crate::image::{RECIPE, image};
use crate::loops::Loop;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Bus, Qemu};
use osbuild::ship::keys::{DEV, Keys};
use osbuild::ship::vm::machine::SecureBoot;
use osbuild::ship::vm::run::{RunOptions, Until, run};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The recipes for bare machines, and what their disk may be connected to.
const AMD64: (&str, &[Bus]) = ("uefi-amd64", &[Bus::Ahci, Bus::Nvme, Bus::Usb, Bus::VirtioScsi]);
/// Debian's firmware for arm64 has no driver for SATA.
const ARM64: (&str, &[Bus]) = ("uefi-arm64", &[Bus::Nvme, Bus::Usb, Bus::VirtioScsi]);

/// How long the node may take to get ready.
const PATIENCE: Duration = Duration::from_secs(300);

/// Size of the other disk: that of an image and a bit.
const OTHER_SIZE: u64 = 1 << 30;

/// Under Secure Boot the image of a bare machine boots to READY from SATA, NVMe, USB and SCSI. Each
/// time there is another disk onto which `osbuild flash` has put a node, with all the same names,
/// and the kernel sees it before it sees a stick: not a byte of it changes.
pub fn a_bare_machine_boots_from_any_bus_beside_another_disk(site: &Site) -> Result<Verdict> {
    boots_from_any_bus(site, AMD64)
}

/// So does that of one with arm64, from all that its firmware knows.
pub fn a_bare_machine_with_arm64_boots_from_any_bus_beside_another_disk(
    site: &Site,
) -> Result<Verdict> {
    boots_from_any_bus(site, ARM64)
}

fn boots_from_any_bus(site: &Site, (recipe, buses): (&str, &[Bus])) -> Result<Verdict> {
    let image = image(site, recipe)?;
    let other = flashed(site)?;
    let names: Vec<_> = buses.iter().map(|bus| bus.name()).collect();
    let mut verdict = Verdict { said: names.join(", "), ..Verdict::default() };
    for bus in buses.iter().copied() {
        let boots =
            boots_beside(site, recipe, &image, &other, bus).map_err(|error| error.to_string());
        verdict.claim(&format!("it boots from {}", bus.name()), boots);
    }
    fs::remove_file(&other).or_build(|| "cannot remove a disk".to_owned())?;
    Ok(verdict)
}

/// A file that holds what a disk with another node does.
fn flashed(site: &Site) -> Result<PathBuf> {
    image(site, RECIPE)?;
    let path = site.log("other-disk").with_extension("raw");
    File::create(&path)
        .and_then(|file| file.set_len(OTHER_SIZE))
        .or_build(|| "cannot make a disk".to_owned())?;
    let disk = Loop::over(site, &path, 512)?;
    let flash = ["flash", RECIPE, "--device", disk.device(), "--device", disk.device(), "--yes"];
    site.finish("other-flash", site.osbuild()?.args(flash))?;
    Ok(path)
}

fn boots_beside(site: &Site, recipe: &str, image: &Path, other: &Path, bus: Bus) -> Result<()> {
    let log = format!("{recipe}-{}", bus.name());
    let disk = site.log(&log).with_extension("qcow2");
    let mut create = Command::new("qemu-img");
    create.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).arg(other).arg(&disk);
    site.finish("other-overlay", &mut create)?;
    let machine = options_of(site, recipe, image.to_owned(), &log)?;
    let machine = RunOptions {
        qemu: Qemu { bus, ..machine.qemu },
        secure_boot: SecureBoot::enforced(Keys::named(&site.project(), DEV)?.trust()?),
        arguments: beside(&disk),
        until: Until::Ready,
        timeout: Some(PATIENCE),
        ..machine
    };
    run(site.report, &machine)?;
    let compared =
        site.run("other-after", Command::new("qemu-img").arg("compare").arg(other).arg(&disk))?;
    fs::remove_file(&disk).or_build(|| "cannot remove a disk".to_owned())?;
    match compared.code {
        Some(0) => Ok(()),
        _ => {
            Err(Error::build("the disk that was not booted has changed")
                .cause(compared.said.trim()))
        }
    }
}

/// An NVMe disk, which the kernel sees at once, and which the firmware does not start.
fn beside(disk: &Path) -> Vec<String> {
    let drive = format!("if=none,id=other,format=qcow2,file={}", disk.display());
    ["-drive", &drive, "-device", "nvme,serial=other,drive=other"].map(str::to_owned).into()
}
