//! What each verb of the command line does.

mod clean;
mod flash;
mod keys;
mod lock;
mod look;
mod make;
mod publish;
mod release;
mod sources;
mod summary;
mod update;
mod verify;

use crate::checkout::Checkout;
use crate::cli::{self, Cli, Common, Verb};
use crate::engine::stop;
use crate::engine::store::Store;
use crate::error::{Context, Error, Result};
use crate::host::{self, Consent, Tool};
use crate::plan::{
    Architecture, Date, HostPrograms, Locked, Plan, Project, Releases, Signing, Strictness,
    resolve, resolve_programs, skew,
};
use crate::produce::fetch::{Fetcher, SourceOrigin};
use crate::report::{Report, Verbosity};
use crate::ship::keys::Keys;
use clap::CommandFactory;
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// The exit code of `osbuild diff` when something differs, as that of diff(1) and cmp(1).
const DIFFERS: u8 = 1;

/// Does what the command line says and gives the exit code.
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
    let session = || Session::begin(cli.common.clone(), report);
    let done = match cli.verb {
        Verb::Check { recipe } => look::check(&session()?, recipe.as_deref()),
        Verb::Plan { recipe } => look::plan(&session()?, &recipe),
        Verb::Skew { recipe } => look::skew(&session()?, &recipe),
        Verb::Lock { recipe } => lock::lock(&session()?, &recipe),
        Verb::Update { names } => update::update(&session()?, &names),
        Verb::Sources(what) => sources::run(&session()?, what),
        Verb::Keys(what) => keys::run(&session()?, what),
        Verb::Build { recipe, sources, rebuild, format, signing } => {
            make::build(&session()?, &recipe, sources, rebuild, format.into(), &signing)
        }
        Verb::Sign { recipe, attach, key, sources } => {
            make::sign(&session()?, &recipe, &attach, key, sources)
        }
        Verb::Release(flags) => release::run(session()?, &flags),
        Verb::Publish(cli::Publish::Aws(flags)) => publish::aws(&session()?, &flags),
        Verb::Run(flags) => make::run(&session()?, &flags),
        Verb::Flash(flags) => flash::run(&session()?, &flags),
        Verb::Inspect { file } => inspect(&cli.common, report, &file),
        Verb::Diff { a, b } => return diff(&cli.common, report, &a, &b),
        Verb::Summary { recipe, against } => summary::run(&session()?, &recipe, against),
        Verb::Verify(flags) => verify::run(&cli.common, report, &flags),
        Verb::Doctor { fix } => doctor(&cli.common, report, fix),
        Verb::Schema { kind } => {
            report.data(
                serde_json::to_string_pretty(&crate::plan::schema(kind.into()))
                    .expect("a schema always serializes"),
            );
            Ok(())
        }
        Verb::Clean { damaged: true, .. } => clean::damaged(&session()?),
        Verb::Clean { all, max_gib, .. } => clean::clean(&session()?, clean::wish(all, max_gib)),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "osbuild", &mut script);
            report.data(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// `osbuild inspect`
fn inspect(common: &Common, report: &Report, file: &Path) -> Result<()> {
    let found = crate::ship::inspect::inspect(file)?;
    report.data(if common.json {
        serde_json::to_string_pretty(&found).expect("an inspection always serializes")
    } else {
        found.to_string().trim_end().to_owned()
    });
    Ok(())
}

/// `osbuild diff`
fn diff(common: &Common, report: &Report, a: &Path, b: &Path) -> Result<ExitCode> {
    let found = crate::ship::diff::diff(a, b)?;
    report.data(if common.json {
        serde_json::to_string_pretty(&found).expect("a difference always serializes")
    } else {
        found.to_string()
    });
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

/// `osbuild doctor`
fn doctor(common: &Common, report: &Report, fix: bool) -> Result<()> {
    let running =
        Architecture::ALL.into_iter().flat_map(|architecture| host::for_run(architecture, true));
    let mut tools = [host::for_steps(), host::for_sources()].concat();
    for tool in running {
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    host::doctor(report, &tools, fix.then(|| consent(common)), common.json)
}

fn consent(common: &Common) -> Consent {
    Consent { yes: common.yes, offline: common.offline }
}

/// What a file holds that the command line names.
fn given(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Error::usage(format!("cannot read `{}`", path.display())).cause(error))
}

/// Seconds since 1970.
fn now() -> Result<u64> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| Error::build("the clock stands before 1970"))?;
    Ok(since.as_secs())
}

/// What a verb works with.
struct Session<'a> {
    common: Common,
    report: &'a Report,
    checkout: Checkout,
    project: Project,
    today: Date,
    /// Seconds since 1970.
    now: u64,
}

impl<'a> Session<'a> {
    fn begin(common: Common, report: &'a Report) -> Result<Self> {
        let here = match &common.project {
            Some(folder) => folder.canonicalize().map_err(|error| {
                Error::usage(format!("cannot open `{}`", folder.display())).cause(error)
            })?,
            None => env::current_dir().or_build(|| "the current folder is gone".into())?,
        };
        let checkout = Checkout::around(&here)?;
        let project = checkout.read()?;
        let now = now()?;
        Ok(Session { common, report, checkout, project, today: Date::from_unix(now), now })
    }

    /// The locked plan of a recipe.
    fn locked(&self, recipe: &str) -> Result<Plan<Locked>> {
        self.locked_as(recipe, Strictness::Build)
    }

    fn locked_as(&self, recipe: &str, strictness: Strictness) -> Result<Plan<Locked>> {
        let plan = resolve(&self.project, recipe, self.today, strictness)?;
        for warning in &plan.warnings {
            self.report.warning(warning);
        }
        plan.lock(self.checkout.lock(recipe)?)
    }

    /// The locked plan of a recipe of programs.
    fn locked_programs(&self, recipe: &str) -> Result<Plan<Locked, HostPrograms<Locked>>> {
        resolve_programs(&self.project, recipe)?.lock(self.checkout.lock(recipe)?)
    }

    /// The locked plan of a recipe, to be signed as the command line says.
    fn locked_for(&self, recipe: &str, signing: &cli::Signing) -> Result<Plan<Locked>> {
        let mut plan = self.locked(recipe)?;
        if signing.unsigned || signing.key.is_some() {
            plan.product.signing = signing.key.clone().map(Signing::with);
        }
        Ok(plan)
    }

    /// The API servers that a plan's node can join.
    fn skew(&self, plan: &Plan) -> Result<Vec<skew::Row>> {
        let releases = self.project.files.get(Releases::PATH).map_or(&[][..], Vec::as_slice);
        let releases = Releases::parse(&String::from_utf8_lossy(releases))?;
        Ok(skew::table(&plan.kubernetes, &releases, self.today))
    }

    /// Sees to it that this machine has what the verb needs.
    fn need(&self, tools: &[Tool]) -> Result<()> {
        host::set_up(self.report, tools, consent(&self.common))
    }

    fn store(&self) -> Result<Store> {
        let variable = |name| env::var_os(name).map(PathBuf::from);
        Store::open(Store::usual_root(variable("XDG_CACHE_HOME"), variable("HOME"))?)
    }

    /// Where sources may come from, with the user's folder of exported ones.
    fn from(&self, sources: Option<PathBuf>) -> Result<SourceOrigin> {
        match sources {
            Some(folder) if !folder.is_dir() => {
                Err(Error::usage(format!("there is no folder `{}`", folder.display()))
                    .hint("`cargo osbuild sources export RECIPE FOLDER` writes one"))
            }
            Some(folder) => Ok(SourceOrigin::Exported(folder)),
            None => Ok(self.anywhere()),
        }
    }

    /// Where sources may come from that nobody has put into a folder.
    fn anywhere(&self) -> SourceOrigin {
        if self.common.offline { SourceOrigin::Store } else { SourceOrigin::Registries }
    }

    /// The keys of this name, which ask nobody by the network with `--offline`.
    fn keys(&self, name: &str) -> Result<Keys> {
        Ok(Keys::named(self.root(), name)?.offline(self.common.offline))
    }

    fn fetcher<'s>(&'s self, store: &'s Store) -> Fetcher<'s> {
        Fetcher { store, report: self.report, project: self.root(), origin: self.anywhere() }
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        self.common.jobs.map_or_else(cores, usize::from)
    }

    fn root(&self) -> &Path {
        &self.checkout.root
    }

    /// Gives a result to stdout: `json` with `--json`, `text` without.
    fn data(&self, json: impl FnOnce() -> serde_json::Value, text: impl FnOnce() -> String) {
        self.report.data(if self.common.json { json().to_string() } else { text() });
    }
}
