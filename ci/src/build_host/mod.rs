//! A build host whose processor is not that of the compilers: Debian 12 for arm64 on an emulated
//! machine, with Debian's own kernel, bubblewrap and emulator for amd64.

mod debian;
mod machine;

use crate::cargo;
use crate::check::Outcome;
use crate::image::RECIPE;
use crate::same;
use crate::site::Site;
use debian::Debian;
use machine::Machine;
use osbuild::error::{Context, Result};
use osbuild::ship::keys::DEV;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that is changed before the second build, and the program that is compiled from it.
const CHANGED: &str = "components/pods/pause/src/main.rs";
const COMPILED: &str = "pod-pause";

/// The only step with an architecture in its name that compiles nothing.
const UNPACKS: &str = "packages";

/// The change.
const CHANGE: &str = "// Changed.\n";

/// A host with arm64 builds the image that this one builds: from this one's results alone, and with
/// a program that it compiles itself.
pub fn arm64_builds_the_same_image(site: &Site) -> Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("osbuild-").tempdir_in("/var/tmp");
    let folder = folder.or_build(|| "cannot make a folder".to_owned())?;
    let [checkout, first, second] =
        ["checkout", "first", "second"].map(|name| folder.path().join(name));
    site.copy_to(&checkout)?;
    same::copy_keys(site, &checkout)?;
    let debian = Debian::unpack(site, folder.path())?;
    let home = debian.root.join("srv");
    copy(site, &cargo::for_arm64(site, "osbuild")?, &debian.root.join("usr/bin"))?;
    copy(site, &checkout, &home)?;
    osbuild(site, &checkout, &["build"], Path::new(RECIPE))?;
    osbuild(site, &checkout, &["results", "export", RECIPE, "--to"], &home.join("results"))?;
    osbuild(site, &checkout, &["sources", "export", RECIPE], &home.join("sources"))?;
    let machine = Machine::run(site, &debian, folder.path(), &commands())?;
    machine.take(site, "first", folder.path())?;
    machine.take(site, "second", folder.path())?;
    let mut outcome = Outcome::default();
    let compiled = compiled(&machine.output);
    let claim = "only the changed program is compiled, once";
    outcome.check(claim, compiled == [COMPILED], || format!("compiled: {compiled:?}"));
    outcome.add(same::compare_products(&out(&checkout), &first)?);
    change(&checkout)?;
    osbuild(site, &checkout, &["build"], Path::new(RECIPE))?;
    outcome.add(same::compare_products(&out(&checkout), &second)?);
    Ok(outcome)
}

/// The programs that the builds with this output have compiled.
fn compiled(output: &str) -> Vec<&str> {
    let steps = output.lines().filter_map(|line| Some(line.split_once(" amd64 ")?.0));
    steps.filter(|step| *step != UNPACKS).collect()
}

fn change(checkout: &Path) -> Result<()> {
    let path = checkout.join(CHANGED);
    let changed = fs::read_to_string(&path).and_then(|text| fs::write(&path, text + CHANGE));
    changed.or_build(|| format!("cannot change `{CHANGED}`"))
}

/// The commands of the host's administrator. Without `--sources` and a network, a build can only
/// use results.
fn commands() -> String {
    format!(
        "cd /srv/checkout\n\
         osbuild results import /srv/results --key {DEV}\n\
         osbuild build {RECIPE} --offline\n\
         mv out/{RECIPE} /srv/first\n\
         printf '%s' '{CHANGE}' >>{CHANGED}\n\
         osbuild build {RECIPE} --sources /srv/sources\n\
         mv out/{RECIPE} /srv/second\n"
    )
}

fn copy(site: &Site, from: &Path, to: &Path) -> Result<()> {
    let mut cp = Command::new("cp");
    site.finish("build-host-copy", cp.arg("-a").args([from, to])).map(drop)
}

/// Runs `osbuild` in a checkout of this machine.
fn osbuild(site: &Site, checkout: &Path, arguments: &[&str], last: &Path) -> Result<()> {
    let mut osbuild = site.osbuild()?;
    osbuild.current_dir(checkout).args(arguments).arg(last).arg("--yes");
    site.finish("build-host-osbuild", &mut osbuild).map(drop)
}

fn out(checkout: &Path) -> PathBuf {
    checkout.join("out").join(RECIPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compiled_program_and_its_dependencies_are_found() {
        let output = "packages amd64               1 packages          113.1 kB     2.1 s\n\
                      init dependencies amd64      dependencies.tar    316.3 MB    3m 15s\n\
                      pod-pause amd64              pause               403.0 kB     1.3 s\n\
                      layer images                 layer.erofs           1.7 MB    0.63 s\n";
        assert_eq!(compiled(output), ["init dependencies", COMPILED]);
    }
}
