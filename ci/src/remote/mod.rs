//! Whole images by remote execution and from a shared cache. `buildbox-casd` is both.

pub mod casd;
pub mod newcomer;
pub mod recorded;

use crate::check::Outcome;
use crate::image::{self, ARM64, RECIPE};
use crate::same;
use crate::site::Site;
use crate::vm::machine::Machine;
use casd::Casd;
use newcomer::{Built, Newcomer};
use osbuild::error::{Error, Result};
use osbuild::ship::keys::{DEV, Keys};
use std::collections::BTreeSet;

/// How many steps the service executes at once.
const STEPS: usize = 2;

/// The start of the place of a step whose result was imported; the digest of the list of results
/// follows.
const IMPORTED: &str = "results@sha256:";

/// The starts of the names of steps that `osbuild` does itself: it takes a file out of a package.
const INSIDE: [&str; 2] = ["ca-certificates ", "systemd-boot-efi "];

/// Every step of the image that runs a program does so on a service, for a machine with an empty
/// store, and the products are those of this machine's own build.
pub fn a_service_makes_the_same_image(site: &Site) -> Result<Outcome> {
    image::build(site, RECIPE)?;
    let service = Casd::executing(STEPS)?;
    let url = service.url();
    let newcomer = Newcomer::new(site)?;
    same::copy_keys(site, &newcomer.project())?;
    let sources = tempfile::tempdir_in("/var/tmp")
        .map_err(|error| Error::build("cannot make a folder for the sources").cause(error))?;
    let sources = sources.path().join("sources");
    site.finish(
        "remote-sources",
        site.osbuild()?.args(["sources", "export", RECIPE]).arg(&sources),
    )?;
    let sources = sources.display().to_string();
    let flags = ["--remote", &url, "--remote-mode", "execute", "--sources", &sources];
    let mut built = newcomer.build(RECIPE, &flags)?;
    built.steps.retain(|step, _| !INSIDE.iter().any(|name| step.starts_with(name)));
    all_made(&built, &format!("executed by {url}"))?;
    named(same::compare(&site.project(), &newcomer.project(), RECIPE)?, &built)
}

/// A machine with an empty store makes the image for arm64 from a cache that has all results: no
/// step runs, no source is fetched, and the products are those of this machine's own build.
pub fn a_cache_gives_the_same_image(site: &Site) -> Result<Outcome> {
    image::build(site, ARM64)?;
    let cache = Casd::cache()?;
    let url = cache.url();
    let newcomer = Newcomer::new(site)?;
    let steps = recorded::build(site, ARM64, &newcomer.project())?;
    recorded::give(&steps, &site.store()?, &url)?;
    same::copy_keys(site, &newcomer.project())?;
    let built = newcomer.build(ARM64, &["--remote", &url, "--remote-mode", "cache"])?;
    all_made(&built, &url)?;
    unpacks_nothing(&newcomer)?;
    named(same::compare(&site.project(), &newcomer.project(), ARM64)?, &built)
}

/// A machine with an empty store imports results from a folder, signed by a release key. Its first
/// image is that of the machine that exported them, and boots.
pub fn imported_results_are_an_image_that_boots(site: &Site) -> Result<Outcome> {
    image::build(site, RECIPE)?;
    let place = tempfile::tempdir_in("/var/tmp")
        .map_err(|error| Error::build("cannot make a folder for the results").cause(error))?;
    let results = place.path().join("results");
    let mut export = site.osbuild()?;
    export.args(["results", "export", RECIPE, "--yes", "--key", DEV, "--to"]).arg(&results);
    site.finish("results-export", &mut export)?;
    let newcomer = Newcomer::new(site)?;
    same::copy_keys(site, &newcomer.project())?;
    let mut import = newcomer.osbuild()?;
    import.args(["results", "import", "--key", DEV]).arg(&results);
    site.finish("results-import", &mut import)?;
    let built = newcomer.build(RECIPE, &[])?;
    let places: BTreeSet<&String> = built.steps.values().collect();
    match places.first() {
        Some(place) if place.starts_with(IMPORTED) => all_made(&built, place)?,
        other => return Err(Error::build(format!("a step is made at {other:?}"))),
    }
    unpacks_nothing(&newcomer)?;
    let same = same::compare(&site.project(), &newcomer.project(), RECIPE)?;
    let image = newcomer.project().join("out").join(RECIPE).join("image.raw");
    let trust = Keys::named(&newcomer.project(), DEV)?.trust()?;
    let machine = Machine::of_board(site, RECIPE, image, "results-boot")?.trusting(trust);
    machine.boot()?.power_off()?;
    named(same, &built)
}

/// Checks that the machine has unpacked no package.
fn unpacks_nothing(newcomer: &Newcomer) -> Result<()> {
    let trees = newcomer.store().join("trees");
    match newcomer::is_empty(&trees) {
        true => Ok(()),
        false => {
            Err(Error::build("a build without a step has unpacked a package")
                .cause(trees.display()))
        }
    }
}

/// Checks that every step of a build was made at `place`.
fn all_made(built: &Built, place: &str) -> Result<()> {
    let elsewhere = |(_, made): &(&String, &String)| *made != place;
    let rest = built.steps.iter().filter(elsewhere);
    let rest = rest.map(|(step, made)| format!("{step}: {made}")).collect::<Vec<_>>();
    match rest.is_empty() && !built.steps.is_empty() {
        true => Ok(()),
        false => {
            Err(Error::build(format!("not every step is made at {place}")).cause(rest.join("\n")))
        }
    }
}

/// The outcome with the number of steps and the time of the build.
fn named(outcome: Outcome, built: &Built) -> Result<Outcome> {
    let time = osbuild::report::duration(built.time);
    let summary = format!("{} steps in {time}, {}", built.steps.len(), outcome.summary);
    Ok(Outcome { summary, ..outcome })
}
