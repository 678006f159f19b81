//! The same lock gives the same bytes: the image is built again in an environment that differs in
//! everything that must not matter.

use crate::check::Outcome;
use crate::image::{self, RECIPE};
use crate::site::Site;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Problem, Result};
use osbuild::ship::keys::DEV;
use std::path::Path;
use std::process::Command;

/// The products to compare.
const PRODUCTS: [&str; 3] = ["image.raw", "node.efi", "initramfs.cpio"];

/// The steps to rerun: our own crates and everything that contains them. `cargo ci full` reruns all
/// steps.
const OURS: &str = "init amd64,mount amd64,pod-dhcp amd64,pod-pause amd64,pod-time amd64,\
                    slotboot amd64,layer,data";

/// Building our own crates and assembling the image again gives the same bytes in another folder,
/// with another umask, time zone, locale, clock and number of jobs.
pub fn ours_are_the_same_elsewhere(site: &Site) -> Result<Outcome> {
    image::build(site, RECIPE)?;
    let copy = site.root.join("out/ci/a folder with a longer name");
    site.copy_to(&copy)?;
    copy_keys(site, &copy)?;
    let program = site.osbuild()?.get_program().to_owned();
    // At this time the kubelet is past its end of life.
    let mut elsewhere = Command::new("faketime");
    elsewhere
        .args(["2031-02-03 04:05:06", "sh", "-c", "umask 077; exec \"$@\"", "sh"])
        .arg(program);
    elsewhere.args(["build", RECIPE, "--jobs", "1", "--offline"]).arg(format!("--rebuild={OURS}"));
    elsewhere
        .current_dir(&copy)
        .env("TZ", "Pacific/Kiritimati")
        .env("LC_ALL", "C.UTF-8")
        .env("USER", "somebody");
    // At this time the store has been unused for years.
    elsewhere.env("OSBUILD_STORE_MAX_GIB", "0");
    site.finish("same-elsewhere", &mut elsewhere)?;
    compare(&site.project(), &copy, RECIPE)
}

/// Copies the keys, which are not in git, so that both builds have the same signatures.
pub fn copy_keys(site: &Site, copy: &Path) -> Result<()> {
    let [from, to] =
        [site.project(), copy.to_owned()].map(|checkout| checkout.join("keys").join(DEV));
    std::fs::create_dir_all(to.parent().expect("the folder of keys"))
        .or_build(|| "cannot make the folder of keys".into())?;
    site.finish("copy-keys", Command::new("cp").arg("-rp").args([from, to])).map(drop)
}

/// Compares the products of a recipe in two checkouts.
pub fn compare(one: &Path, other: &Path, recipe: &str) -> Result<Outcome> {
    let [one, other] = [one, other].map(|checkout| checkout.join("out").join(recipe));
    compare_products(&one, &other)
}

/// Compares the products in two folders.
pub fn compare_products(one: &Path, other: &Path) -> Result<Outcome> {
    let mut problems = Vec::new();
    let mut output = String::new();
    for name in PRODUCTS {
        let [first, second] = [one, other].map(|folder| Digest::of_file(&folder.join(name)));
        let (first, second) = (first?, second?);
        if first != second {
            problems.push(Problem::new(format!(
                "`{name}` differs: sha256:{} and sha256:{}",
                first.hex(),
                second.hex()
            )));
        }
        if output.is_empty() {
            output = format!("{name} is sha256:{}…", &first.hex()[..12]);
        }
    }
    Ok(Outcome::of(problems, output))
}

/// Everything, including kernel and kubelet, gives the same image when another user builds it in an
/// empty store from exported sources without a network.
pub fn everything_is_the_same_from_exported_sources(site: &Site) -> Result<Outcome> {
    image::build(site, RECIPE)?;
    let folder = tempfile::Builder::new()
        .prefix("osbuild-")
        .tempdir_in("/var/tmp")
        .or_build(|| "cannot make a folder".into())?;
    let [copy, sources, home] =
        ["checkout", "sources", "home"].map(|name| folder.path().join(name));
    site.copy_to(&copy)?;
    copy_keys(site, &copy)?;
    site.finish("export", site.osbuild()?.args(["sources", "export", RECIPE]).arg(&sources))?;
    std::fs::create_dir(&home).or_build(|| "cannot make a home".into())?;
    site.finish(
        "give-away",
        Command::new("chown").args(["-R", "nobody:nogroup"]).arg(folder.path()),
    )?;
    let program = folder.path().join("osbuild");
    std::fs::copy(site.osbuild()?.get_program(), &program)
        .or_build(|| "cannot copy `osbuild`".into())?;
    let mut cut_off = Command::new("unshare");
    cut_off
        .args(["--net", "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"])
        .arg(&program);
    cut_off
        .args(["build", RECIPE, "--sources"])
        .arg(&sources)
        .env("HOME", &home)
        .env_remove("XDG_CACHE_HOME")
        .current_dir(&copy);
    site.finish("same-from-sources", &mut cut_off)?;
    let outcome = compare(&site.project(), &copy, RECIPE)?;
    if outcome.passed == 0 {
        Err(Error::many(osbuild::error::Kind::Digest, outcome.problems))
    } else {
        Ok(outcome)
    }
}
