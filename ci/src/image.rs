//! The image that the VM tests boot, built from the lock as a user would.

use crate::check::Outcome;
use crate::disk_file::LoopDevice;
use crate::site::Site;
use osbuild::checkout::Checkout;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{
    Date, Lock, Locked, Plan, Product, Source, Strictness, resolve, resolve_programs,
};
use osbuild::produce::fetch::{Fetcher, Lists, SourceOrigin};
use osbuild::ship::audit::diff::diff;
use osbuild::ship::audit::inspect::inspect;
use osbuild::ship::keys::DEV;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The recipe of the VM tests.
pub const RECIPE: &str = "qemu-amd64";

/// The recipe of the VM tests for the other architecture.
pub const ARM64: &str = "qemu-arm64";

/// The recipe of the lab's control plane.
pub const LAB: &str = "lab";

/// The recipe of the programs of the lab that only `cargo ci full` needs.
pub const LAB_FULL: &str = "lab-full";

/// The recipe of Kubernetes' own tests.
pub const CONFORMANCE: &str = "conformance";

/// `osbuild`'s exit code when the lock is out of date or a locked source is gone.
const LOCK: i32 = 3;

/// `osbuild`'s message when Debian has replaced a locked package.
const GONE: &str = "the archive no longer has";

/// `osbuild build` makes the image of [`RECIPE`] from its lock. Debian removes old packages within
/// weeks: if a locked one is gone, the lock is renewed in a copy of the checkout, and the checks go
/// on there.
pub fn builds(site: &Site) -> Result<Outcome> {
    build(site, RECIPE)
}

/// The recipe for arm64, with every program cross-compiled.
pub fn builds_for_arm64(site: &Site) -> Result<Outcome> {
    build(site, ARM64)
}

/// The programs of the lab. They are compiled before any machine runs: an emulated machine would
/// miss its deadlines meanwhile.
pub fn builds_the_lab(site: &Site) -> Result<Outcome> {
    build_with_sources(site, LAB)
}

/// The programs of the lab that only `cargo ci full` needs.
pub fn builds_the_full_lab(site: &Site) -> Result<Outcome> {
    build_with_sources(site, LAB_FULL)
}

/// Kubernetes' own tests.
pub fn builds_the_conformance_tests(site: &Site) -> Result<Outcome> {
    build_with_sources(site, CONFORMANCE)
}

/// Builds a recipe of programs, and fetches its sources: the images of the lab carry files of them.
/// A build fetches only what its steps need.
fn build_with_sources(site: &Site, recipe: &str) -> Result<Outcome> {
    let outcome = build(site, recipe)?;
    let project = Checkout { root: site.project() }.read()?;
    let plan = resolve_programs(&project, recipe)?.lock(lock(site, recipe)?)?;
    fetch(site, &plan, &|_| true)?;
    Ok(outcome)
}

/// Fetches the source with this SHA-256 of a node's recipe, which no step of a build may need.
pub fn fetch_source(site: &Site, recipe: &str, sha256: &str) -> Result<()> {
    let project = Checkout { root: site.project() }.read()?;
    let plan = resolve(&project, recipe, Date::from_unix(0), Strictness::Build)?;
    fetch(site, &plan.lock(lock(site, recipe)?)?, &|source| source.digest == sha256)
}

fn fetch<P: Product<Locked>>(
    site: &Site,
    plan: &Plan<Locked, P>,
    wanted: &dyn Fn(&Source) -> bool,
) -> Result<()> {
    let (store, folder) = (site.store()?, site.project());
    let fetcher = Fetcher {
        store: &store,
        report: site.report,
        project: &folder,
        origin: SourceOrigin::Registries,
        remote: None,
        lists: Lists::default(),
    };
    fetcher.fetch_those(plan, wanted)
}

/// Builds a recipe from its lock, as [`builds`] does.
pub fn build(site: &Site, recipe: &str) -> Result<Outcome> {
    build_with_renewals(site, recipe, || site.osbuild(), |gone| renew(site, gone))?;
    Ok(match site.project() == site.root {
        true => Outcome::holds(recipe),
        false => Outcome::holds(format!("{recipe}, WITH A RENEWED LOCK")),
    })
}

/// Runs `osbuild build` for a recipe. If locked packages are gone from the archive, calls `renew`
/// with their names and builds again.
pub fn build_with_renewals(
    site: &Site,
    recipe: &str,
    osbuild: impl Fn() -> Result<Command>,
    renew: impl Fn(&BTreeSet<String>) -> Result<()>,
) -> Result<()> {
    let mut renewed = BTreeSet::new();
    loop {
        let log = format!("build-{recipe}");
        let ran = site.run(&log, osbuild()?.args(["build", recipe, "--yes"]))?;
        match ran.code {
            Some(0) => return Ok(()),
            Some(LOCK) => {}
            _ => return Err(ran.failure(&format!("`osbuild build {recipe}` failed"))),
        }
        // The steps fetch one after another, so more packages may be gone after each renewal.
        let gone: BTreeSet<String> =
            gone(&ran.output).filter(|name| !renewed.contains(*name)).map(str::to_owned).collect();
        if gone.is_empty() {
            return Err(ran.failure(&format!("`osbuild build {recipe}` does not accept its lock")));
        }
        renew(&gone)?;
        renewed.extend(gone);
    }
}

/// Builds another recipe from its lock, and returns the image.
pub fn image(site: &Site, recipe: &str) -> Result<PathBuf> {
    image_in(site, &site.project(), recipe)
}

/// Like [`image`], in another copy of the checkout.
pub fn image_in(site: &Site, project: &Path, recipe: &str) -> Result<PathBuf> {
    let mut osbuild = site.osbuild()?;
    osbuild.current_dir(project).args(["build", recipe, "--yes"]);
    site.finish(&format!("build-{recipe}"), &mut osbuild)?;
    Ok(image_of(project, recipe))
}

/// Where a build in `project` leaves the image of a recipe.
pub fn image_of(project: &Path, recipe: &str) -> PathBuf {
    project.join("out").join(recipe).join("image.raw")
}

/// The packages that are gone, from `osbuild`'s output.
fn gone(output: &str) -> impl Iterator<Item = &str> {
    output.split(GONE).skip(1).filter_map(|rest| rest.split('`').nth(1))
}

/// Moves the checks to a copy of the checkout whose lock has newer versions of `packages`.
fn renew(site: &Site, packages: &BTreeSet<String>) -> Result<()> {
    let copy = site.root.join("out/ci/relocked");
    if site.project() != copy {
        let warn = |text: &str| site.report.warning(text);
        warn(
            "A LOCKED DEBIAN PACKAGE IS GONE FROM THE ARCHIVE. The checks go on in a copy with a \
             renewed lock.",
        );
        warn("renew the locks themselves: cargo osbuild update");
        site.copy_to(&copy)?;
        site.move_to(copy);
    }
    site.finish("update", site.osbuild()?.arg("update").args(packages).arg("--yes"))?;
    Ok(())
}

/// `inspect` finds the same node in the image, in its UKI and in its initramfs.
pub fn three_inspections_agree(site: &Site) -> Result<Outcome> {
    let out = site.project().join("out").join(RECIPE);
    let [image, uki, initramfs] =
        ["image.raw", "node.efi", "initramfs.cpio"].map(|name| inspect(&out.join(name)));
    let (image, uki, initramfs) = (image?, uki?, initramfs?);
    if image.disk.is_none() || image.uki.is_none() || image.root.binaries.len() != 7 {
        return Err(Error::build("`inspect` did not find all parts of the image").cause(image));
    }
    if (&image.root, &image.initramfs) != (&uki.root, &uki.initramfs)
        || (&uki.root, &uki.initramfs) != (&initramfs.root, &initramfs.initramfs)
    {
        return Err(Error::build("the image, its UKI and its initramfs contain different nodes"));
    }
    let signatures = [&image, &uki]
        .map(|found| found.uki.as_ref().map(|uki| &uki.signatures[..]).unwrap_or_default());
    if !signatures.iter().all(|found| found.len() == 1 && found[0].intact)
        || signatures[0] != signatures[1]
    {
        return Err(Error::build("the image and its UKI do not have the same valid signature"));
    }
    if image.disk.as_ref().is_none_or(|disk| disk.boot.signatures != signatures[0]) {
        return Err(Error::build("the boot program does not have the UKI's signature"));
    }
    let has_options = image
        .uki
        .iter()
        .flat_map(|uki| &uki.kernel_options)
        .any(|options| options.contains_key("EROFS_FS"));
    let differs = [("image.raw", "node.efi"), ("node.efi", "initramfs.cpio")]
        .map(|(a, b)| diff(&out.join(a), &out.join(b)));
    for found in differs {
        let found = found?;
        if !has_options || !found.is_empty() {
            return Err(Error::build(
                "`diff` does not find the options of one kernel and the files of one node",
            )
            .cause(found));
        }
    }
    Ok(Outcome::holds(&*signatures[0][0].signer))
}

/// A user without the project verifies files and a disk with the certificate.
pub fn each_file_is_verified_from_outside(site: &Site) -> Result<Outcome> {
    let (out, certificate) = (site.project().join("out").join(RECIPE), certificate(site));
    let disk = LoopDevice::read_only(site, &out.join("image.raw"))?;
    let files = [
        out.join("image.raw"),
        out.join("node.efi"),
        out.join("initramfs.cpio"),
        disk.path().into(),
    ];
    for file in &files {
        let mut osbuild = site.osbuild()?;
        osbuild.current_dir("/").arg("verify").arg(file).arg("--cert").arg(&certificate);
        let ran = site.finish("verify", &mut osbuild)?;
        if ran.output.contains("WRONG")
            || !ran.output.contains("/bin has the 7 files of a node and no others")
        {
            return Err(ran.failure(&format!(
                "`osbuild verify` does not report its findings in `{}`",
                file.display()
            )));
        }
    }
    Ok(Outcome { passed: files.len(), ..Outcome::default() })
}

/// A user without the project verifies a release with the root of trust and the certificate.
pub fn a_release_is_verified_from_outside(site: &Site) -> Result<Outcome> {
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let mut osbuild = site.osbuild()?;
    osbuild.args(["release", RECIPE, "--allow-dev-key", "--to"]).arg(folder.path());
    site.finish("release", &mut osbuild)?;
    let (certificate, mut osbuild) = (certificate(site), site.osbuild()?);
    osbuild.current_dir("/").arg("verify").arg(folder.path()).arg("--cert").arg(&certificate);
    let ran =
        site.finish("verify", osbuild.arg("--root").arg(certificate.with_file_name("root.json")))?;
    let documents = ["lock", "contents", "sources", "provenance", "sbom"];
    match documents.iter().find(|name| !ran.output.contains(&format!("ok     {name} "))) {
        Some(name) => Err(ran.failure(&format!(
            "`osbuild verify` does not report its findings in the {name} of a release"
        ))),
        None => Ok(Outcome::holds("UKI, slotboot, lock, sources, provenance, SBOM")),
    }
}

/// The lock of a recipe.
pub fn lock(site: &Site, recipe: &str) -> Result<Lock> {
    let path = Lock::path(recipe);
    let text = std::fs::read_to_string(site.project().join(&path))
        .or_build(|| format!("cannot read `{path}`"))?;
    Lock::parse(&path, &text)
}

/// The certificate of the recipe's keys.
pub fn certificate(site: &Site) -> PathBuf {
    site.project().join("keys").join(DEV).join("db.crt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_that_are_gone_are_read_from_the_output() {
        let output = "error: the archive no longer has `bash` 5.1-1\n  \
                      its newest version is 5.2-1\n\nerror: the archive no longer has `bc` 1\n";
        assert_eq!(gone(output).collect::<Vec<_>>(), ["bash", "bc"]);
        assert_eq!(gone("error: `recipes/node.lock` is out of date").count(), 0);
    }
}
