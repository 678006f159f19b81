//! From the texts of a recipe, its board and its components to a plan.

mod binaries;
mod boot;
mod files;
mod installs;
mod kernel;
mod kubernetes;
mod payload;
mod pods;
mod programs;
mod updates;
mod wanted;
mod writable;

pub use programs::{makes_programs, resolve_programs};
pub use wanted::BUILD_MACHINE;

use super::component::Components;
use super::document::{Node, Spot};
use super::inherit::Kind;
use super::origin::Origins;
use super::project::Project;
use super::skew::Strictness;
use super::writable::list;
use super::{
    Architecture, Board, Bus, Date, Installs, Kubernetes, Plan, Qemu, Resolution, Resolved,
    Unlocked, keys,
};
use crate::error::{Error, Kind as ErrorKind, Problem, Result};
use osbuild_formats::fat;
use wanted::{Parts, cargo_packages};

/// Recipes: `recipes/<name>.toml`.
pub(super) static RECIPES: Kind =
    Kind { what: "recipe", prefix: "recipes/", suffix: ".toml", keys: keys::RECIPE };
/// Boards: `boards/<name>.toml`.
pub(super) static BOARDS: Kind =
    Kind { what: "board", prefix: "boards/", suffix: ".toml", keys: keys::BOARD };

/// What is gathered while a recipe is resolved.
pub(super) struct Resolver<'p> {
    /// The texts.
    pub project: &'p Project,
    /// The components that were read.
    pub components: Components<'p>,
    /// Everything that is wrong.
    pub problems: Vec<Problem>,
    /// Where values were written.
    pub origins: Origins,
    /// What the user should know of, or act on some day.
    pub warnings: Vec<String>,
}

impl Resolver<'_> {
    /// Remembers where a value was written, by its name in the printed plan.
    pub fn note(&mut self, name: impl Into<String>, spot: &Spot) {
        self.origins.insert(name.into(), spot.origin());
    }

    /// Adds a problem at a place.
    pub fn problem(&mut self, spot: &Spot, message: impl Into<String>) {
        self.problems.push(Problem::new(message).at(spot.place()));
    }
}

/// Resolves a recipe, whatever it makes. See [`resolve`].
pub fn resolve_any(
    project: &Project,
    recipe: &str,
    today: Date,
    strictness: Strictness,
) -> Result<Box<dyn Resolution>> {
    match makes_programs(project, recipe) {
        true => Ok(Box::new(resolve_programs(project, recipe)?.resolved)),
        false => Ok(Box::new(resolve(project, recipe, today, strictness)?.resolved)),
    }
}

/// Resolves the recipe of a node. All problems of all its files come back in one error, whose exit
/// code is that of a wrong recipe.
///
/// `today` only decides about warnings, and with [`Strictness::Lock`] about errors: it never
/// changes what is built.
pub fn resolve(
    project: &Project,
    recipe: &str,
    today: Date,
    strictness: Strictness,
) -> Result<Plan> {
    if makes_programs(project, recipe) {
        let error =
            Error::usage(format!("recipe `{recipe}` makes programs for this machine, and no node"));
        return Err(error.hint(format!("cargo osbuild build {recipe}")));
    }
    let mut resolver = Resolver::new(project);
    let plan = resolver.plan(recipe, today, strictness);
    match plan {
        Some(plan) if resolver.problems.is_empty() => Ok(plan),
        _ => Err(Error::many(ErrorKind::Usage, unique(resolver.problems))),
    }
}

/// Looks at every recipe, board and component of the project, whether or not anything names it.
pub fn check(project: &Project, today: Date) -> Vec<Problem> {
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
        // A recipe without a board is there to be inherited from.
        if recipe.is_some_and(|(recipe, _)| recipe.get("board").is_some()) {
            resolver.plan(name, today, Strictness::Build);
        }
    }
    unique(resolver.problems)
}

/// The recipes of the project that can be built: those that name a board, themselves or by
/// inheritance.
pub fn buildable(project: &Project) -> Vec<String> {
    let read = |name: &str| RECIPES.read_part(project, name, &mut Vec::new());
    let names_board = |name: &&str| {
        read(name).is_some_and(|(recipe, _)| {
            recipe.get("board").is_some() && recipe.get("programs").is_none()
        })
    };
    RECIPES.names(project).filter(names_board).map(str::to_owned).collect()
}

/// A file that several others name is read more than once: each of its problems is shown once.
fn unique(problems: Vec<Problem>) -> Vec<Problem> {
    let mut seen: Vec<Problem> = Vec::new();
    for problem in problems {
        if !seen.contains(&problem) {
            seen.push(problem);
        }
    }
    seen
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
        let Some(recipe) = RECIPES.read(self.project, name, &mut self.problems) else {
            let absent = RECIPES.absent(self.project, name);
            self.problems.push(absent);
            return None;
        };
        let board = self.named_board(&recipe);
        let architecture = board.as_ref().map(|(architecture, ..)| *architecture);
        // What does not hang on the architecture is looked at even without one, so that its
        // problems are shown as well.
        let assumed = architecture.unwrap_or(Architecture::Amd64);
        let kernel = self.kernel(&recipe, board.as_ref().map(|(_, _, node)| node), assumed);
        let boot = self.boot(&recipe);
        let binaries = self.binaries(&recipe);
        let time_servers =
            self.time_servers([Some(&recipe), board.as_ref().map(|(_, _, node)| node)]);
        let security_epoch = self.security_epoch(&recipe);
        let updates = self.updates(&recipe);
        let installs = self.installs(&recipe, architecture);
        let own = updates.iter().flat_map(|updates| updates.files(name, security_epoch));
        let own = own.chain(installs.iter().map(Installs::file));
        let writable = self.writable(&recipe);
        let own = own.chain(list(&writable));
        let files = self.files(&recipe, &writable, own);
        let pods = self.pods(&recipe);
        let pause = self.pause(&recipe);
        let kubernetes = self.kubernetes(&recipe, binaries.as_ref(), today, strictness)?;
        let signing = self.signing(&recipe);
        let version = self.version(&recipe, &kubernetes);
        let (architecture, board, _) = board?;
        let (kernel, boot, binaries, pause) = (kernel?, boot?, binaries?, pause?);
        let packages = cargo_packages(&boot, &binaries, &pods, &pause);
        let parts = Parts {
            architecture,
            kernel: &kernel,
            binaries: &binaries,
            files: &files,
            pods: &pods,
            packages: &packages,
        };
        let wanted = self.wanted(&recipe, &parts)?;
        let resolved = Resolved {
            recipe: name.to_owned(),
            version,
            architecture,
            board,
            time_servers,
            security_epoch,
            kernel,
            boot,
            binaries,
            files,
            writable,
            pods,
            pause,
            kubernetes,
            signing,
            updates,
            installs,
            wanted,
            origins: std::mem::take(&mut self.origins),
            warnings: std::mem::take(&mut self.warnings),
        };
        Some(Plan { resolved, lock: Unlocked })
    }

    fn signing(&mut self, recipe: &Node) -> Option<String> {
        let key = recipe.get("signing")?.get("key")?;
        self.note("signing.key", &key.spot);
        key.text().map(str::to_owned)
    }

    fn version(&mut self, recipe: &Node, kubernetes: &Kubernetes) -> String {
        if let Some(node) = recipe.get("version") {
            self.note("version", &node.spot);
        }
        recipe.text_of("version").map_or_else(|| kubernetes.kubelet.to_string(), str::to_owned)
    }

    fn security_epoch(&mut self, recipe: &Node) -> u32 {
        let Some(epoch) = recipe.get("security-epoch") else { return 1 };
        self.note("security-epoch", &epoch.spot);
        // What is no such number was a problem when the recipe was read.
        epoch.integer().and_then(|epoch| u32::try_from(epoch).ok()).unwrap_or(1)
    }

    /// The list of the first of the two that has one, be it empty.
    fn time_servers(&mut self, sections: [Option<&Node>; 2]) -> Vec<String> {
        let Some(list) =
            sections.into_iter().flatten().find_map(|section| section.get("time-servers"))
        else {
            return Vec::new();
        };
        self.note("time-servers", &list.spot);
        list.list().iter().filter_map(Node::text).map(str::to_owned).collect()
    }

    fn named_board(&mut self, recipe: &Node) -> Option<(Architecture, Board, Node)> {
        let named = recipe.get("board")?.clone();
        let name = named.text()?;
        self.note("board.name", &named.spot);
        match self.board(name) {
            Some(board) => Some(board),
            None if self.project.has(&BOARDS.path(name)) => None,
            None => {
                let absent = BOARDS.absent(self.project, name).at(named.spot.place());
                self.problems.push(absent);
                None
            }
        }
    }

    fn board(&mut self, name: &str) -> Option<(Architecture, Board, Node)> {
        let node = BOARDS.read(self.project, name, &mut self.problems)?;
        let architecture = Architecture::named(node.text_of("architecture")?)?;
        let number = |key: &str| u64::try_from(node.get(key)?.integer()?).ok();
        let board = Board {
            name: name.to_owned(),
            sector_size: u32::try_from(number("sector-size")?).ok()?,
            esp_size_mib: number("esp-size-mib")?,
            slot_size_mib: number("slot-size-mib")?,
            data_size_mib: number("data-size-mib")?,
            min_ram_mib: number("min-ram-mib")?,
            gate_hold_s: number("gate-hold-s")?,
            gate_deadline_s: number("gate-deadline-s")?,
            watchdog_s: number("watchdog-s")?,
            qemu: node.get("qemu").and_then(qemu),
        };
        for (key, entry) in node.table()? {
            match key.as_str() {
                "architecture" => self.note(key, &entry.key),
                "inherit" | "kernel" | "time-servers" => {}
                "qemu" => node
                    .entries_of("qemu")
                    .for_each(|(key, entry)| self.note(format!("board.qemu.{key}"), &entry.key)),
                _ => self.note(format!("board.{key}"), &entry.key),
            }
        }
        self.check_esp(&board, node.get("esp-size-mib")?);
        self.check_gate(&board, node.get("gate-hold-s")?);
        Some((architecture, board, node))
    }

    /// A slot on trial is given up at the deadline, and may only become good when it has held.
    fn check_gate(&mut self, board: &Board, hold: &Node) {
        let Board { gate_hold_s, gate_deadline_s, .. } = board;
        if gate_hold_s >= gate_deadline_s {
            let problem = Problem::new(format!(
                "a node that has to hold for {gate_hold_s} s misses the deadline of {gate_deadline_s} s"
            ));
            self.problems.push(
                problem
                    .at(hold.spot.place())
                    .hint("no update could become a good node: make `gate-deadline-s` larger"),
            );
        }
    }

    /// FAT32 has a least number of clusters, of which none is smaller than a sector.
    fn check_esp(&mut self, board: &Board, size: &Node) {
        let least = fat::min_size(board.sector_size.into()) >> 20;
        if board.esp_size_mib < least {
            let problem = Problem::new(format!(
                "an EFI system partition of {} MiB is too small for sectors of {} bytes",
                board.esp_size_mib, board.sector_size
            ));
            self.problems.push(
                problem.at(size.spot.place()).hint(format!("`esp-size-mib = {least}` or more")),
            );
        }
    }
}

fn qemu(node: &Node) -> Option<Qemu> {
    Some(Qemu {
        machine: node.text_of("machine")?.to_owned(),
        cpu: node.text_of("cpu")?.to_owned(),
        memory_mib: u64::try_from(node.get("memory-mib")?.integer()?).ok()?,
        cpus: u32::try_from(node.get("cpus")?.integer()?).ok()?,
        bus: Bus::named(node.text_of("bus")?)?,
    })
}
