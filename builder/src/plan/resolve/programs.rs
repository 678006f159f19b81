//! A recipe of programs for the machine that builds.

use super::{RECIPES, Resolver, unique};
use crate::error::{Error, Kind as ErrorKind, Problem, Result, in_words};
use crate::plan::component::Place;
use crate::plan::document::Node;
use crate::plan::{BUILD_MACHINE, Compile, HostProgram, HostPrograms, Plan, Project, Unlocked};

/// All that such a recipe may say; everything else says what a node is.
const KEYS: [&str; 4] = ["inherit", "programs", "toolchains", "sandbox"];

/// Whether a recipe makes programs for the machine that builds, and no node: it has `[programs]`,
/// itself or by inheritance.
pub fn makes_programs(project: &Project, recipe: &str) -> bool {
    let read = RECIPES.read_part(project, recipe, &mut Vec::new());
    read.is_some_and(|(recipe, _)| recipe.get("programs").is_some())
}

/// Resolves a recipe of programs. All problems of all its files come back in one error, whose exit
/// code is that of a wrong recipe.
pub fn resolve_programs(project: &Project, recipe: &str) -> Result<Plan<Unlocked, HostPrograms>> {
    let mut resolver = Resolver::new(project);
    match resolver.programs(recipe) {
        Some(resolved) if resolver.problems.is_empty() => Ok(Plan { resolved, lock: Unlocked }),
        _ => Err(Error::many(ErrorKind::Usage, unique(resolver.problems))),
    }
}

impl Resolver<'_> {
    /// The programs, or nothing together with at least one problem.
    pub(super) fn programs(&mut self, name: &str) -> Option<HostPrograms> {
        self.origins.clear();
        let Some((recipe, _)) = RECIPES.read_part(self.project, name, &mut self.problems) else {
            let absent = RECIPES.absent(self.project, name);
            self.problems.push(absent);
            return None;
        };
        self.refuse_parts_of_a_node(&recipe);
        if recipe.get("toolchains").is_none_or(|toolchains| toolchains.get("go").is_none()) {
            self.problem(&recipe.spot, "`toolchains.go` is missing");
        }
        let section = recipe.get("programs")?.clone();
        let programs =
            recipe.entries_of("programs").map(|(file, entry)| self.program(file, &entry.node));
        let programs: Vec<HostProgram> =
            programs.collect::<Vec<_>>().into_iter().collect::<Option<_>>()?;
        let versions: Vec<_> = programs
            .iter()
            .map(|program| (&*program.file, &*program.component, Some(&*program.version)))
            .collect();
        self.one_version_a_component(&section, &versions);
        let wanted = self.wanted_by_programs(&recipe, &programs)?;
        let origins = std::mem::take(&mut self.origins);
        Some(HostPrograms {
            recipe: name.to_owned(),
            architecture: BUILD_MACHINE,
            programs,
            wanted,
            origins,
        })
    }

    fn program(&mut self, file: &str, asked: &Node) -> Option<HostProgram> {
        let (component, Compile::Go(build)) = self.compiled("programs", Place::Lab, file, asked)?
        else {
            return None;
        };
        let version = asked.text_of("version")?.to_owned();
        Some(HostProgram { file: file.to_owned(), component, version, build })
    }

    fn refuse_parts_of_a_node(&mut self, recipe: &Node) {
        for (key, entry) in
            recipe.table().into_iter().flatten().filter(|(key, _)| !KEYS.contains(&key.as_str()))
        {
            let problem = Problem::new(format!("a recipe with `[programs]` has no `{key}`"))
                .at(entry.key.place());
            let problem =
                problem.cause("it makes programs for the machine that builds, and no node");
            self.problems.push(problem.hint(format!("it has {}", in_words(KEYS.into_iter()))));
        }
    }
}
