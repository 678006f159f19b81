//! The state that every verb starts from.

use super::{consent, now};
use crate::checkout::Checkout;
use crate::cli::{self, Common};
use crate::engine::executor::{Rebuild, Workers};
use crate::engine::remote::{Mode, Remote, Trust};
use crate::engine::store::Store;
use crate::error::{Context, Error, Result, each_once, in_words};
use crate::host::{self, Tool};
use crate::plan::{
    Date, HostPrograms, Lockable, Locked, Overrides, Plan, Project, Releases, Signing, Strictness,
    Unlocked, resolve, resolve_programs, skew, untaken,
};
use crate::produce::build::BuildOptions;
use crate::produce::compile::Workspace;
use crate::produce::fetch::{Fetcher, Lists, SourceOrigin};
use crate::report::Report;
use crate::ship::keys::Keys;
use crate::user_config::{self, RemoteConfig};
use std::cell::OnceCell;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The variable with the URL of a pipeline's shared cache.
const REMOTE: &str = "OSBUILD_REMOTE";

/// The project, the common flags, and the current day.
pub(super) struct Session<'a> {
    pub common: Common,
    pub report: &'a Report,
    pub checkout: Checkout,
    pub project: Project,
    pub today: Date,
    /// Seconds since 1970.
    pub now: u64,
    /// Which results count.
    pub trust: Trust,
    /// The state that the builds of this command share.
    workers: Workers,
    workspace: Workspace,
    /// The shared cache, once a build has asked for it.
    remote: OnceCell<Option<Arc<Remote>>>,
}

impl<'a> Session<'a> {
    pub fn begin(common: Common, report: &'a Report) -> Result<Self> {
        let here = match &common.project {
            Some(folder) => folder.canonicalize().map_err(|error| {
                Error::usage(format!("cannot open `{}`", folder.display())).cause(error)
            })?,
            None => env::current_dir().or_build(|| "the current folder is gone".into())?,
        };
        let checkout = Checkout::around(&here)?;
        let mut project = checkout.read()?;
        project.overrides = Overrides::parse(&common.set)?;
        let now = now()?;
        let (trust, workers, remote) = Default::default();
        let today = Date::from_unix(now);
        let workspace = Workspace::of(&checkout.root);
        Ok(Session {
            common,
            report,
            checkout,
            project,
            today,
            now,
            trust,
            workers,
            workspace,
            remote,
        })
    }

    /// The recipes that the command line names, each once.
    ///
    /// # Errors
    /// All are wanted, and none has a lock.
    pub fn selected(&self, recipes: &cli::Recipes) -> Result<Vec<String>> {
        let names = match recipes.all {
            true => self.with_lock().map(str::to_owned).collect(),
            false => each_once(recipes.names.clone()),
        };
        if names.is_empty() {
            let error = Error::usage("no recipe has a lock");
            return Err(error.hint("`cargo osbuild lock RECIPE` makes one"));
        }
        self.check_set(&names)?;
        Ok(names)
    }

    /// Refuses a value of `--set` that changes none of these recipes.
    pub fn check_set(&self, recipes: &[impl AsRef<str>]) -> Result<()> {
        let Some(key) = untaken(&self.project, recipes) else { return Ok(()) };
        let names = in_words(recipes.iter().map(AsRef::as_ref));
        Err(Error::usage(format!("`--set {key}=…` would change nothing"))
            .cause(format!("this key is for recipes of another kind than {names}"))
            .hint("`cargo osbuild plan RECIPE` shows the values of a recipe"))
    }

    /// The names of the recipes that have a lock.
    pub fn with_lock(&self) -> impl Iterator<Item = &str> {
        let files = self.project.files.keys();
        files.filter_map(|path| path.strip_prefix("recipes/")?.strip_suffix(".lock"))
    }

    /// The locked plan of a recipe.
    pub fn locked(&self, recipe: &str) -> Result<Plan<Locked>> {
        self.locked_as(recipe, Strictness::Build)
    }

    pub fn locked_as(&self, recipe: &str, strictness: Strictness) -> Result<Plan<Locked>> {
        let plan = resolve(&self.project, recipe, self.today, strictness)?;
        for warning in &plan.warnings {
            self.report.warning(warning);
        }
        self.lock(plan, |project| resolve(project, recipe, self.today, strictness))
    }

    /// The locked plan of a recipe that makes programs.
    pub fn locked_programs(&self, recipe: &str) -> Result<Plan<Locked, HostPrograms<Locked>>> {
        let resolve = |project: &Project| resolve_programs(project, recipe);
        self.lock(resolve(&self.project)?, resolve)
    }

    /// The plan with its lock. `again` resolves its recipe: if the lock fits the recipe without the
    /// values of `--set`, these are the cause, and no new lock helps.
    fn lock<P: Lockable>(
        &self,
        plan: Plan<Unlocked, P>,
        again: impl Fn(&Project) -> Result<Plan<Unlocked, P>>,
    ) -> Result<Plan<Locked, P::Locked>> {
        let lock = self.checkout.lock(&plan.recipe)?;
        let error = match plan.lock(lock.clone()) {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let set = self.project.overrides.values();
        let plain = Project { overrides: Overrides::default(), ..self.project.clone() };
        if set.is_empty() || again(&plain).and_then(|plan| plan.lock(lock)).is_err() {
            return Err(error);
        }
        let set = in_words(set.keys().map(String::as_str));
        Err(error.cause(format!("`--set` changes {set}")).hint(cli::INHERIT_AND_LOCK))
    }

    /// The locked plan of a recipe, and the keys that sign its image: from the command line, or
    /// else from the recipe.
    pub fn locked_for(
        &self,
        recipe: &str,
        flags: &cli::Signing,
    ) -> Result<(Plan<Locked>, Option<Signing>)> {
        let plan = self.locked(recipe)?;
        let default = || plan.default_signing.clone().filter(|_| !flags.unsigned);
        let signing = flags.key.as_deref().map(Signing::with).or_else(default);
        Ok((plan, signing))
    }

    /// The API servers that a plan's node can join.
    pub fn skew(&self, plan: &Plan) -> Result<Vec<skew::Row>> {
        let releases = self.project.files.get(Releases::PATH).map_or(&[][..], Vec::as_slice);
        let releases = Releases::parse(&String::from_utf8_lossy(releases))?;
        Ok(skew::table(&plan.kubernetes, &releases, self.today))
    }

    /// Checks that this machine has the tools, and offers to install missing ones.
    pub fn need(&self, tools: &[Tool]) -> Result<()> {
        host::set_up(self.report, tools, consent(&self.common))
    }

    pub fn store(&self) -> Result<Store> {
        let variable = |name| env::var_os(name).map(PathBuf::from);
        let root = Store::usual_root(variable("XDG_CACHE_HOME"), variable("HOME"))?;
        Store::open_waiting(root, || {
            self.report.note("waiting for another command that removes entries from the store");
        })
    }

    /// The origin of sources: the user's folder, or [`Session::default_origin`].
    pub fn from(&self, sources: Option<PathBuf>) -> Result<SourceOrigin> {
        match sources {
            Some(folder) if !folder.is_dir() => {
                Err(Error::usage(format!("there is no folder `{}`", folder.display()))
                    .hint("`cargo osbuild sources export RECIPE FOLDER` writes one"))
            }
            Some(folder) => Ok(SourceOrigin::Exported(folder)),
            None => Ok(self.default_origin()),
        }
    }

    /// The origin of sources without a folder.
    fn default_origin(&self) -> SourceOrigin {
        if self.common.offline { SourceOrigin::Store } else { SourceOrigin::Registries }
    }

    /// The keys of this name. With `--offline`, they do not use the network.
    ///
    /// # Errors
    /// There are no such keys.
    pub fn keys(&self, name: &str) -> Result<Keys> {
        let keys = self.keys_to_make(name)?;
        keys.check_folder()?;
        Ok(keys)
    }

    /// The same, of keys that need not exist.
    pub fn keys_to_make(&self, name: &str) -> Result<Keys> {
        Ok(Keys::named(self.root(), name)?.offline(self.common.offline))
    }

    pub fn fetcher<'s>(&'s self, store: &'s Store) -> Fetcher<'s> {
        let (report, project, origin) = (self.report, self.root(), self.default_origin());
        Fetcher { store, report, project, origin, remote: None, lists: Lists::default() }
    }

    /// The shared cache, from the command line or the user's configuration. With `--offline` there
    /// is none.
    ///
    /// # Errors
    /// Its URL or the configuration is invalid.
    pub fn remote(&self) -> Result<Option<Arc<Remote>>> {
        if let Some(remote) = self.remote.get() {
            return Ok(remote.clone());
        }
        let variable = |name| env::var_os(name).map(PathBuf::from);
        let folder = user_config::folder(variable("XDG_CONFIG_HOME"), variable("HOME"));
        let Common { remote: url, remote_mode, offline, .. } = &self.common;
        let open = |found: RemoteConfig| -> Result<Arc<Remote>> {
            let RemoteConfig { address, access, mode, platform } = found;
            let remote = Remote::new(address, &access, mode, self.report.clone())?;
            Ok(Arc::new(remote.on_platform(platform)))
        };
        let mode = if *offline { Some(Mode::Off) } else { remote_mode.map(Into::into) };
        // Pipelines set the variable from one of theirs, which may be empty.
        let of_pipeline = env::var(REMOTE).ok().filter(|url| !url.is_empty());
        let url = url.as_deref().or(of_pipeline.as_deref());
        let found = user_config::remote(folder.as_deref(), url, mode)?;
        let remote = found.map(open).transpose()?;
        Ok(self.remote.get_or_init(|| remote).clone())
    }

    /// The options of an unsigned build.
    ///
    /// # Errors
    /// As of [`Session::remote`].
    pub fn build_options<'s>(
        &'s self,
        store: &'s Store,
        origin: SourceOrigin,
        rebuild: Rebuild,
    ) -> Result<BuildOptions<'s>> {
        Ok(BuildOptions {
            project: self.root(),
            workspace: self.workspace.clone(),
            store,
            report: self.report,
            origin,
            rebuild,
            remote: self.remote()?,
            trust: self.trust,
            jobs: self.jobs(),
            workers: self.workers.clone(),
            signer: None,
            carried: None,
        })
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        self.common.jobs.map_or_else(cores, usize::from)
    }

    pub fn root(&self) -> &Path {
        &self.checkout.root
    }

    /// Writes a result to stdout: `json` with `--json`, `text` without.
    pub fn data(&self, json: impl FnOnce() -> serde_json::Value, text: impl FnOnce() -> String) {
        self.report.data(if self.common.json { json().to_string() } else { text() });
    }
}
