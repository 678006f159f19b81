//! `osbuild verify`: needs no project, unless it is asked to take a project's keys or to build a recipe again.

use super::{Session, make, now};
use crate::cli::{self, Common};
use crate::error::{Context, Result};
use crate::plan::Date;
use crate::produce::assemble::Built;
use crate::produce::disk::OnDisk;
use crate::report::Report;
use crate::ship::keys::Keys;
use crate::ship::verify::{Judge, Rebuilt, verify};
use osbuild_signatures::certificate::Certificate;
use std::path::PathBuf;

/// `osbuild verify`
pub fn run(common: &Common, report: &Report, flags: &cli::Verify) -> Result<()> {
    let mut judge = Judge {
        db: flags.cert.iter().map(certificate).collect::<Result<_>>()?,
        dbx: Vec::new(),
        day: flags.as_of.map_or_else(|| now().map(Date::from_unix), Ok)?,
    };
    let session = || Session::begin(common.clone(), report);
    if let Some(name) = &flags.key {
        let session = session()?;
        let trust = Keys::named(session.root(), name)?.trust()?;
        judge.db.extend(trust.db);
        judge.dbx.extend(trust.dbx);
    }
    let rebuilt = flags.against.as_ref().map(|recipe| rebuilt(&session()?, recipe, flags.sources.clone())).transpose()?;
    let found = verify(&flags.file, &judge, rebuilt.as_ref())?;
    report.data(match common.json {
        true => serde_json::to_string(&found).expect("a verification always serializes"),
        false => found.to_string(),
    });
    found.verdict()
}

fn rebuilt(session: &Session, recipe: &str, sources: Option<PathBuf>) -> Result<Rebuilt> {
    let Built { image, uki, initramfs, .. } = make::again(session, recipe, sources)?;
    Ok(Rebuilt { recipe: recipe.to_owned(), image, uki, initramfs })
}

fn certificate(path: &PathBuf) -> Result<Certificate> {
    let pem = std::fs::read(path).at("read", path)?;
    Certificate::from_pem(&pem).or_build(|| format!("cannot read `{}`", path.display()))
}
