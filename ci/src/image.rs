//! The image that the VM tests boot, built from the lock as a user would.

use crate::check::Verdict;
use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild::ship::inspect::inspect;

/// The recipe of the VM tests.
pub const RECIPE: &str = "qemu-amd64";

/// The same for the other architecture.
pub const ARM64: &str = "qemu-arm64";

/// `osbuild`'s exit code when the lock is out of date or a locked source is gone.
const LOCK: i32 = 3;

/// The words by which `osbuild` says that Debian has replaced a locked package.
const GONE: &str = "the archive no longer has";

/// `osbuild build` makes the image of [`RECIPE`] from its lock. Debian drops old packages within weeks: on the day when a locked one is gone,
/// the lock is renewed in a copy of the checkout, and everything goes on there.
pub fn builds(site: &Site) -> Result<Verdict> {
    site.finish("osbuild", site.release_cargo().args(["build", "--release", "--quiet", "--locked", "--package", "osbuild"]))?;
    build(site, RECIPE)
}

/// The same recipe for arm64, every program of it cross-compiled.
pub fn builds_for_arm64(site: &Site) -> Result<Verdict> {
    build(site, ARM64)
}

fn build(site: &Site, recipe: &str) -> Result<Verdict> {
    let ran = site.run(&format!("build-{recipe}"), site.osbuild()?.args(["build", recipe, "--yes"]))?;
    if ran.code == Some(0) {
        return Ok(Verdict::holds(recipe));
    }
    if ran.code != Some(LOCK) || !ran.said.contains(GONE) {
        return Err(ran.failure(&format!("`osbuild build {recipe}` failed")));
    }
    site.report
        .warning("A LOCKED DEBIAN PACKAGE IS GONE FROM THE ARCHIVE. The lock is renewed in a copy, and that is what is tested.");
    site.report.warning("renew the locks themselves: cargo osbuild update");
    let copy = site.root.join("out/ci/relocked");
    site.copy_to(&copy)?;
    site.move_to(copy);
    site.finish("update", site.osbuild()?.args(["update", "--yes"]))?;
    site.finish(&format!("build-{recipe}"), site.osbuild()?.args(["build", recipe, "--yes"]))?;
    Ok(Verdict::holds(format!("{recipe}, WITH A RENEWED LOCK")))
}

/// The image, its UKI and its initramfs, each looked into by itself, hold the same node.
pub fn three_inspections_agree(site: &Site) -> Result<Verdict> {
    let out = site.project().join("out").join(RECIPE);
    let [image, uki, initramfs] = ["image.raw", "node.efi", "initramfs.cpio"].map(|name| inspect(&out.join(name)));
    let (image, uki, initramfs) = (image?, uki?, initramfs?);
    if image.disk.is_none() || image.uki.is_none() || image.root.binaries.len() != 7 {
        return Err(Error::build("`inspect` does not find all parts of the image").cause(image));
    }
    if (&image.root, &image.initramfs) != (&uki.root, &uki.initramfs)
        || (&uki.root, &uki.initramfs) != (&initramfs.root, &initramfs.initramfs)
    {
        return Err(Error::build("the image, its UKI and its initramfs do not hold the same node"));
    }
    Ok(Verdict::holds(""))
}
