//! The verbs of the command line, one file per verb. [`session`] has the state that every verb
//! starts from, and [`image`] builds for the verbs that need an image.

mod build;
mod check;
mod clean;
mod cluster;
mod completions;
mod diff;
mod doctor;
mod flash;
mod image;
mod inspect;
mod keys;
mod lock;
mod node;
mod plan;
mod publish;
mod release;
mod results;
mod run;
mod schema;
mod session;
mod sign;
mod skew;
mod sources;
mod summary;
mod update;
mod verify;

use crate::cli::{self, Cli, Common, Verb};
use crate::engine::stop;
use crate::error::{Error, Result};
use crate::host::Consent;
use crate::report::{Report, Verbosity};
use session::Session;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs the verb of the command line and returns the exit code.
pub fn main(cli: Cli) -> ExitCode {
    let verbosity = match &cli.common {
        Common { quiet: true, .. } => Verbosity::Quiet,
        Common { verbose: true, .. } => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    let report = Report::new(verbosity, cli.common.color.into());
    let done = stop::on_signals()
        .and_then(|()| run(cli, &report))
        .and_then(|code| report.all_written().map(|()| code));
    match done {
        Ok(code) => code,
        Err(error) => {
            report.error(&error);
            ExitCode::from(error.kind as u8)
        }
    }
}

fn run(cli: Cli, report: &Report) -> Result<ExitCode> {
    let common = &cli.common;
    if !common.set.is_empty() && !cli.verb.reads_recipes() {
        return Err(Error::usage("`--set` has no effect on this verb").hint(cli::INHERIT_AND_LOCK));
    }
    let session = || Session::begin(common.clone(), report);
    let done = match cli.verb {
        Verb::Check { recipes } => check::run(&session()?, &recipes),
        Verb::Plan { recipe } => plan::run(&session()?, &recipe),
        Verb::Skew { recipe } => skew::run(&session()?, &recipe),
        Verb::Lock { recipes } => lock::run(&session()?, &recipes),
        Verb::Update { names } => update::run(&session()?, &names),
        Verb::Sources(what) => sources::run(&session()?, what),
        Verb::Results(what) => results::run(session()?, what),
        Verb::Keys(what) => keys::run(&session()?, what),
        Verb::Build { recipes, sources, rebuild, format, signing } => {
            build::run(&session()?, &recipes, sources, rebuild, format.into(), &signing)
        }
        Verb::Sign { recipe, attach, key, sources } => {
            sign::run(&session()?, &recipe, &attach, key, sources)
        }
        Verb::Release(flags) => release::run(session()?, &flags),
        Verb::Publish(cli::Publish::Aws(flags)) => publish::run(session()?, &flags),
        Verb::Cluster(flags) => cluster::run(&session()?, &flags),
        Verb::Run(flags) => run::run(&session()?, &flags),
        Verb::Flash(flags) => flash::run(&session()?, &flags),
        Verb::Inspect { file } => inspect::run(common, report, &file),
        Verb::Diff { a, b } => return diff::run(common, report, &a, &b),
        Verb::Summary { recipes, against } => summary::run(&session()?, &recipes, against),
        Verb::Verify(flags) => verify::run(common, report, &flags),
        Verb::Node(what) => node::run(common, report, what),
        Verb::Doctor { fix } => doctor::run(common, report, fix),
        Verb::Schema { kind } => {
            schema::run(report, kind);
            Ok(())
        }
        Verb::Clean { all, max_gib, damaged } => clean::run(&session()?, all, max_gib, damaged),
        Verb::Completions { shell } => {
            completions::run(report, shell);
            Ok(())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn consent(common: &Common) -> Consent {
    Consent { yes: common.yes, offline: common.offline }
}

/// Reads a file that is named on the command line.
fn read_argument(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Error::usage(format!("cannot read `{}`", path.display())).cause(error))
}

/// The error for a folder that is not a repository of releases.
fn not_releases(folder: &Path) -> Error {
    Error::usage(format!("`{}` is not a folder of releases", folder.display()))
        .hint("`cargo osbuild release RECIPE --to FOLDER` writes one")
}

/// Seconds since 1970.
fn now() -> Result<u64> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| Error::build("the system clock is before 1970"))?;
    Ok(since.as_secs())
}
