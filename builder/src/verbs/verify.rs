//! `osbuild verify`: needs no project, unless it is asked to take a project's keys or to build a recipe again.

use super::{Session, make, now};
use crate::cli::{self, Common};
use crate::error::{Context, Error, Result};
use crate::plan::Date;
use crate::produce::assemble::Built;
use crate::produce::disk::OnDisk;
use crate::report::Report;
use crate::ship::keys::Keys;
use crate::ship::tuf::Root;
use crate::ship::verify::{Judge, Reader, Rebuilt, Verification, verify, verify_release};
use osbuild_signatures::certificate::Certificate;
use std::path::PathBuf;

/// `osbuild verify`
pub fn run(common: &Common, report: &Report, flags: &cli::Verify) -> Result<()> {
    let mut judge = Judge {
        signed: !flags.unsigned,
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
    if flags.file.is_dir() {
        let reader = Reader { root: root(flags, session)?, channel: flags.channel, memory: flags.memory.clone() };
        return say(common, report, &verify_release(&flags.file, &reader, &judge)?);
    }
    if flags.unsigned {
        report.note("nobody has to have signed it: signatures are not looked at");
    }
    let rebuilt = flags.against.as_ref().map(|recipe| rebuilt(&session()?, recipe, flags.sources.clone())).transpose()?;
    let found = verify(&flags.file, &judge, rebuilt.as_ref())?;
    say(common, report, &found)
}

fn say(common: &Common, report: &Report, found: &Verification) -> Result<()> {
    report.data(match common.json {
        true => serde_json::to_string(found).expect("a verification always serializes"),
        false => found.to_string(),
    });
    found.verdict()
}

/// The root of trust that the command line names, or that of the keys that it names.
fn root<'a>(flags: &cli::Verify, session: impl Fn() -> Result<Session<'a>>) -> Result<Root> {
    match (&flags.root, &flags.key) {
        (Some(path), _) => {
            let root = Root::parse(&std::fs::read(path).at("read", path)?);
            root.map_err(|error| error.cause(format!("it is `{}`", path.display())))
        }
        (None, Some(name)) => {
            // The oldest one, as a node has it whose image is old.
            let mut roots = Keys::named(session()?.root(), name)?.roots()?.into_iter();
            roots.next().ok_or_else(|| Error::build(format!("the keys `{name}` have no root of trust")))
        }
        (None, None) if flags.unsigned => {
            Err(Error::usage(format!("`{}` is a folder, and a release is always signed", flags.file.display()))
                .hint("leave `--unsigned` away, and name the root of trust by `--root root.json`"))
        }
        (None, None) => {
            Err(Error::usage(format!("`{}` is a folder, and nothing says whose releases it has", flags.file.display()))
                .hint("name the root of trust by `--root root.json`"))
        }
    }
}

fn rebuilt(session: &Session, recipe: &str, sources: Option<PathBuf>) -> Result<Rebuilt> {
    let Built { image, uki, initramfs, .. } = make::again(session, recipe, sources)?;
    Ok(Rebuilt { recipe: recipe.to_owned(), image, uki, initramfs })
}

fn certificate(path: &PathBuf) -> Result<Certificate> {
    let pem = std::fs::read(path).at("read", path)?;
    Certificate::from_pem(&pem).or_build(|| format!("cannot read `{}`", path.display()))
}
