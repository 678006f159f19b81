//! A recipe of programs for the build machine.

use super::components::Place;
use super::host_components::Entry;
use super::{BUILD_MACHINE, RECIPES, Resolver};
use crate::error::{Error, Kind as ErrorKind, Problem, Result, in_words};
use crate::plan::document::Table as Items;
use crate::plan::keys::{RecipeFile, Table};
use crate::plan::{GoComponent, HostPrograms, Plan, ProgramComponent, Project, Unlocked};
use std::collections::BTreeMap;

/// The section of such a recipe.
const PROGRAMS: &str = key!(RecipeFile.programs);
/// The section of an installer.
const INSTALLS: &str = key!(RecipeFile.installs);

/// The keys of such a recipe; all others describe a node.
const KEYS: [&str; 4] = [
    key!(RecipeFile.inherit),
    key!(RecipeFile.programs),
    key!(RecipeFile.toolchains),
    key!(RecipeFile.sandbox),
];

/// Whether a recipe takes a key of the command line, which is for all recipes of a command: one of
/// programs takes none of a node and vice versa, and only an installer takes those of `[installs]`,
/// as the recipe that it carries is read with the same command line.
pub fn takes(recipe: &Items, key: &str) -> bool {
    is_taken(key, |section| recipe.contains_key(section))
}

/// The first key of the command line that none of these recipes takes: it would change nothing.
pub fn untaken<'p>(project: &'p Project, recipes: &[impl AsRef<str>]) -> Option<&'p str> {
    let takes = |recipe: &str, key: &str| {
        let section = key.split('.').next().unwrap_or(key);
        // A recipe that is not there is an error of its own.
        RECIPES.read_part(project, recipe, &mut Vec::new()).is_none_or(|recipe| {
            is_taken(section, |section| match section {
                PROGRAMS => recipe.programs.is_some(),
                _ => recipe.installs.is_some(),
            })
        })
    };
    let mut keys = project.overrides.values().keys();
    keys.find(|key| !recipes.iter().any(|recipe| takes(recipe.as_ref(), key))).map(String::as_str)
}

/// Whether a recipe that `has` some sections takes a key. It takes an unknown one, which it refuses
/// with its place.
fn is_taken(key: &str, has: impl Fn(&str) -> bool) -> bool {
    let is_known = RecipeFile::KEYS.iter().any(|known| known.name == key);
    match key {
        PROGRAMS | INSTALLS => has(key),
        key => !is_known || !has(PROGRAMS) || KEYS.contains(&key),
    }
}

/// Whether a recipe makes programs for the build machine instead of a node: it has `[programs]`,
/// itself or by inheritance.
pub fn makes_programs(project: &Project, recipe: &str) -> bool {
    let read = RECIPES.read_part(project, recipe, &mut Vec::new());
    read.is_some_and(|recipe| recipe.programs.is_some())
}

/// Resolves a recipe of programs. All problems of all its files come back in one error, whose exit
/// code is that of a wrong recipe.
pub fn resolve_programs(project: &Project, recipe: &str) -> Result<Plan<Unlocked, HostPrograms>> {
    let mut resolver = Resolver::new(project);
    match resolver.programs(recipe) {
        Some(plan) if resolver.problems.is_empty() => Ok(plan),
        _ => Err(Error::many(ErrorKind::Usage, resolver.problems)),
    }
}

impl Resolver<'_> {
    /// The plan, or nothing together with at least one problem.
    pub(super) fn programs(&mut self, name: &str) -> Option<Plan<Unlocked, HostPrograms>> {
        self.origins.clear();
        let Some(recipe) = RECIPES.read_part(self.project, name, &mut self.problems) else {
            let absent = RECIPES.absent(self.project, name);
            self.problems.push(absent);
            return None;
        };
        self.refuse_parts_of_a_node(&recipe);
        if recipe.toolchains.as_ref().is_none_or(|toolchains| toolchains.go.is_none()) {
            self.problem(&recipe.spot, "`toolchains.go` is missing");
        }
        let entries = recipe.programs.as_ref()?.iter().map(|(file, entry)| {
            Some(Entry {
                section: key!(RecipeFile.programs),
                place: Place::Lab,
                file,
                spot: &entry.spot,
                component: entry.component.as_ref()?,
                version: entry.version.as_ref(),
            })
        });
        let compiled = entries.map(|entry| Some((entry?, self.program(entry?)?)));
        let compiled: Vec<_> = compiled.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?;
        let all: Vec<Entry<'_>> = compiled.iter().map(|(entry, _)| *entry).collect();
        self.check_versions(&all);
        let mut components = BTreeMap::<&str, ProgramComponent>::new();
        for (entry, go) in compiled {
            let component = components.entry(&entry.component.value);
            let component = component.or_insert_with(|| ProgramComponent { go, files: Vec::new() });
            component.files.push(entry.file.to_owned());
        }
        let product = HostPrograms { components: components.into_values().collect() };
        Some(Plan {
            recipe: name.to_owned(),
            architecture: BUILD_MACHINE,
            requirements: self.requirements_of_programs(&recipe, &product)?,
            product,
            origins: std::mem::take(&mut self.origins),
            warnings: Vec::new(),
            lock: Unlocked,
        })
    }

    fn program(&mut self, entry: Entry<'_>) -> Option<GoComponent> {
        let Entry { section, file, component, .. } = entry;
        self.note(format!("{section}.{file}.component"), &component.spot);
        self.go(entry)
    }

    fn refuse_parts_of_a_node(&mut self, recipe: &RecipeFile) {
        for (key, spot) in recipe.present().into_iter().filter(|(key, _)| !KEYS.contains(key)) {
            let problem =
                Problem::new(format!("a recipe with `[programs]` has no `{key}`")).at(spot.place());
            let problem = problem.cause("it makes programs for the build machine, not a node");
            self.problems.push(problem.hint(format!("it has {}", in_words(KEYS.into_iter()))));
        }
    }
}
