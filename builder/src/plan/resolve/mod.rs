//! From the files of a recipe, its board and its components to a plan.

#[macro_use]
pub mod components;
mod api;
mod board;
mod boot;
mod console;
mod files;
mod host_components;
mod installs;
mod kernel;
mod kubernetes;
mod payload;
mod pods;
mod programs;
mod requirements;
mod settings;
mod updates;
mod volumes;
mod writable;

pub use programs::{makes_programs, resolve_programs, untaken};
pub use requirements::BUILD_MACHINE;

use super::document::{Item, Located, Origins, Spot, Value, read_parts};
use super::keys::{BoardFile, RecipeFile};
use super::node::{apparmor_files, kubelet_names, list};
use super::project::inherit::Kind;
use super::{
    AnyPlan, Api, Architecture, Date, Installs, Kubernetes, NodeSpec, Plan, Project, Signing,
    Strictness, Unlocked, Volumes,
};
use crate::error::{Error, Kind as ErrorKind, Problem, Result, each_once};
use components::Components;
use console::console_file;
use programs::takes;
use requirements::{Parts, cargo_packages};

/// Recipes: `recipes/<name>.toml`.
pub static RECIPES: Kind<RecipeFile> = Kind::new("recipe", "recipes/", ".toml").overridden(takes);
/// Boards: `boards/<name>.toml`.
pub static BOARDS: Kind<BoardFile> = Kind::new("board", "boards/", ".toml");

/// The state of a resolution: the input files, and the findings so far.
struct Resolver<'p> {
    /// The files.
    project: &'p Project,
    /// The components that were read.
    components: Components<'p>,
    /// Everything that is wrong.
    problems: Vec<Problem>,
    /// Where values are written.
    origins: Origins,
    /// The warnings: problems that exist now, or from a later day on.
    warnings: Vec<String>,
}

impl Resolver<'_> {
    /// Records where a value is written, by its name in the printed plan.
    fn note(&mut self, name: impl Into<String>, spot: &Spot) {
        self.origins.insert(name.into(), spot.origin());
    }

    /// Adds a problem at a place.
    fn problem(&mut self, spot: &Spot, message: impl Into<String>) {
        self.problems.push(Problem::new(message).at(spot.place()));
    }
}

/// Resolves a recipe, whatever it makes. See [`resolve`].
pub fn resolve_any(
    project: &Project,
    recipe: &str,
    today: Date,
    strictness: Strictness,
) -> Result<Box<dyn AnyPlan>> {
    match makes_programs(project, recipe) {
        true => Ok(Box::new(resolve_programs(project, recipe)?)),
        false => Ok(Box::new(resolve(project, recipe, today, strictness)?)),
    }
}

/// Resolves the recipe of a node. All problems of all its files come back in one error, whose exit
/// code is that of a wrong recipe.
///
/// `today` only affects warnings, and errors with [`Strictness::Lock`]: it never changes what is
/// built.
pub fn resolve(
    project: &Project,
    recipe: &str,
    today: Date,
    strictness: Strictness,
) -> Result<Plan> {
    if makes_programs(project, recipe) {
        let error =
            Error::usage(format!("recipe `{recipe}` makes programs for this machine, not a node"));
        return Err(error.hint(format!("cargo osbuild build {recipe}")));
    }
    let mut resolver = Resolver::new(project);
    let plan = resolver.plan(recipe, today, strictness);
    match plan {
        Some(plan) if resolver.problems.is_empty() => Ok(plan),
        _ => Err(Error::many(ErrorKind::Usage, resolver.problems)),
    }
}

/// Checks every recipe, board and component of the project, including those that no other file
/// names. Returns the problems, and the warnings of all recipes.
pub fn check(project: &Project, today: Date) -> (Vec<Problem>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut resolver = Resolver::new(project);
    resolver.components.read_all(&mut resolver.problems);
    for name in BOARDS.names(project) {
        resolver.board(name);
    }
    for name in RECIPES.names(project) {
        if makes_programs(project, name) {
            resolver.programs(name);
            continue;
        }
        let recipe = RECIPES.read_part(project, name, &mut resolver.problems);
        // A recipe without a board exists to be inherited from.
        if recipe.is_some_and(|recipe| recipe.board.is_some()) {
            let plan = resolver.plan(name, today, Strictness::Build);
            warnings.extend(plan.map_or_else(Vec::new, |plan| plan.warnings));
        }
    }
    (each_once(resolver.problems), warnings)
}

/// The recipes of the project that can be built: those that name a board, themselves or by
/// inheritance.
pub fn buildable(project: &Project) -> Vec<String> {
    let read = |name: &str| RECIPES.read_part(project, name, &mut Vec::new());
    let names_board = |name: &&str| {
        read(name).is_some_and(|recipe| recipe.board.is_some() && recipe.programs.is_none())
    };
    RECIPES.names(project).filter(names_board).map(str::to_owned).collect()
}

impl<'p> Resolver<'p> {
    fn new(project: &'p Project) -> Self {
        Resolver {
            project,
            components: Components::new(project),
            problems: Vec::new(),
            origins: Origins::new(),
            warnings: Vec::new(),
        }
    }

    /// The plan, or nothing together with at least one problem.
    fn plan(&mut self, name: &str, today: Date, strictness: Strictness) -> Option<Plan> {
        self.origins.clear();
        self.warnings.clear();
        let recipe = self.recipe(name)?;
        let board = self.named_board(&recipe);
        let architecture = board.as_ref().map(|(architecture, ..)| *architecture);
        let board_file = board.as_ref().map(|(.., file)| &file.value);
        // The rest is resolved even without an architecture, so that its problems are shown, too.
        let assumed = architecture.unwrap_or(Architecture::Amd64);
        let kernel = self.kernel(&recipe, board_file, assumed);
        let boot = self.boot(&recipe);
        let components = self.host_components(&recipe);
        let time_servers = self.time_servers(&recipe, board_file);
        let security_epoch = self.security_epoch(&recipe);
        let api = self.api(&recipe);
        let updates = self.updates(&recipe);
        let settings = self.node_settings(&recipe);
        let volumes = self.volumes(&recipe);
        let console_address = self.console_address(&recipe);
        let installs = self.installs(&recipe, architecture);
        let own = updates.iter().flat_map(|updates| updates.files(name, security_epoch));
        let own = own.chain(api.iter().flat_map(Api::files));
        let own = own.chain(settings.file()).chain(volumes.iter().map(Volumes::file));
        let own = own.chain(console_address.then(console_file)).chain(kubelet_names());
        let own = own.chain(installs.iter().map(Installs::file));
        let writable = self.writable(&recipe);
        let own = own.chain(list(&writable)).chain(kernel.iter().flat_map(apparmor_files));
        let files = self.files(&recipe, &writable, own);
        let pods = self.pods(&recipe);
        let pause = self.pause(&recipe, &pods);
        let kubernetes =
            self.kubernetes(&recipe, components.as_deref(), &pods, today, strictness)?;
        let version = self.version(&recipe, &kubernetes);
        let (architecture, board, board_file) = board?;
        let product = NodeSpec {
            version,
            board,
            time_servers,
            security_epoch,
            kernel: kernel?,
            boot: boot?,
            components: components?,
            files,
            writable,
            pods,
            pause: pause?,
            kubernetes,
            default_signing: self.signing(&recipe),
            api,
            updates,
            settings,
            volumes,
            console_address,
            installs,
        };
        self.check_command_line(&product, &recipe, &board_file);
        let parts = Parts { architecture, node: &product, packages: cargo_packages(&product) };
        let requirements = self.requirements(&recipe, &parts)?;
        Some(Plan {
            recipe: name.to_owned(),
            architecture,
            product,
            requirements,
            origins: std::mem::take(&mut self.origins),
            warnings: std::mem::take(&mut self.warnings),
            lock: Unlocked,
        })
    }

    /// The recipe of this name. That there is none is a problem.
    fn recipe(&mut self, name: &str) -> Option<Located<RecipeFile>> {
        let recipe = RECIPES.read(self.project, name, &mut self.problems);
        if recipe.is_none() {
            self.problems.push(RECIPES.absent(self.project, name));
        }
        recipe
    }

    fn signing(&mut self, recipe: &RecipeFile) -> Option<Signing> {
        let key = recipe.signing.as_ref()?.value.key.as_ref()?;
        self.note("signing.key", &key.spot);
        Some(Signing { key: key.to_string(), origin: Some(key.spot.origin()) })
    }

    fn version(&mut self, recipe: &RecipeFile, kubernetes: &Kubernetes) -> String {
        let Some(version) = &recipe.version else { return kubernetes.kubelet.to_string() };
        self.note("version", &version.spot);
        version.to_string()
    }

    fn security_epoch(&mut self, recipe: &RecipeFile) -> u32 {
        let Some(epoch) = &recipe.security_epoch else { return 1 };
        self.note("security-epoch", &epoch.spot);
        (&epoch.value).into()
    }

    /// The recipe's list, which can be empty, or else the board's.
    fn time_servers(&mut self, recipe: &RecipeFile, board: Option<&BoardFile>) -> Vec<String> {
        let of_board = || board.and_then(|board| board.time_servers.as_ref());
        let Some(list) = recipe.time_servers.as_ref().or_else(of_board) else { return Vec::new() };
        self.note("time-servers", &list.spot);
        let servers = texts(Some(list));
        if !servers.is_empty() {
            let read = read_parts([("time-servers", &item_of(list))]);
            self.problems.extend(read.err().into_iter().flatten());
        }
        servers
    }
}

/// A list of strings, as before it was read.
fn item_of<T: std::ops::Deref<Target = str>>(list: &Located<Vec<Located<T>>>) -> Item {
    let text = |text: &Located<T>| Located {
        key: text.key.clone(),
        spot: text.spot.clone(),
        value: Value::Text(text.value.to_string()),
    };
    let value = Value::List(list.iter().map(text).collect());
    Located { key: list.key.clone(), spot: list.spot.clone(), value }
}

/// The strings of a list; none where it is absent.
fn texts<T: std::ops::Deref<Target = str>>(list: Option<&Located<Vec<Located<T>>>>) -> Vec<String> {
    list.into_iter().flat_map(|list| &list.value).map(|text| text.value.to_string()).collect()
}
