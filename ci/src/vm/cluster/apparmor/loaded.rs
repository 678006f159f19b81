//! A profile of a user's own, loaded by a pod as the documentation says.

use super::super::TIMEOUT;
use super::super::images::{NamedImage, debian_files};
use super::super::kubectl::Kubectl;
use super::super::wait::{Seen, wait};
use crate::check::Outcome;
use crate::image::{self, LAB};
use crate::site::Site;
use crate::vm::probe;
use osbuild::error::{Error, Result};
use osbuild::plan::Architecture;
use osbuild::produce::debian::contents;
use osbuild::produce::podimage::from_program;
use std::path::Path;

/// The package with the parser, and where that is.
const PACKAGE: &str = "apparmor";
const PARSER: &str = "sbin/apparmor_parser";

/// The profile, the DaemonSet that loads it, and a pod that asks for it.
const OBJECTS: &str = include_str!("loaded.yaml");

/// The log of the pod: its profile, and what it may write. Between these is the shell's message.
const LOG: [&str; 3] = ["reads-only (enforce)\nwritten\n", "Permission denied", "\nrefused\n"];

/// The image with the parser, beside a shell.
pub fn image(site: &Site) -> Result<NamedImage> {
    let (lock, store) = (image::lock(site, probe::APPARMOR_RECIPE)?, site.store()?);
    let package = lock.files.packages.iter().find(|package| package.package == PACKAGE);
    let missing = |what: &str| Error::build(format!("the lock's package `{PACKAGE}` {what}"));
    let package = package.ok_or_else(|| missing("is not there"))?;
    image::fetch_source(site, probe::APPARMOR_RECIPE, &package.sha256)?;
    let found = contents(&store, package, "")?;
    let parser = found.files.get(Path::new(PARSER));
    let parser = parser.ok_or_else(|| missing("has no parser"))?;
    let around = debian_files(&store, &image::lock(site, LAB)?, &[("/bin/sh", "bin/bash")])?;
    let image = from_program(&store, PARSER, parser, &around, Architecture::Amd64)?;
    Ok(NamedImage { name: "example/apparmor-loader", tag: "1".to_owned(), image })
}

/// A pod loads a profile, and another one that asks for it is confined by it.
pub fn confines_a_pod(kubectl: &Kubectl, outcome: &mut Outcome) -> Result<()> {
    kubectl.apply(OBJECTS)?;
    let confined = wait(TIMEOUT, || {
        let log = kubectl.run(&["logs", "confined-by-own"])?.output;
        let has_all = LOG.iter().all(|part| log.contains(part));
        Ok(if has_all { Seen::Yes(()) } else { Seen::NotYet(log) })
    })?;
    outcome.claim("a profile that a pod has loaded confines another one", confined);
    Ok(())
}
