//! The node that a stick installs. The recipe must also have the pod that installs it.

use super::{RECIPES, Resolver};
use crate::error::Problem;
use crate::plan::document::Located;
use crate::plan::keys::{InstallerFile, Name, RecipeFile, Table};
use crate::plan::project::inherit::read_file;
use crate::plan::{Architecture, Installs};
use osbuild_abi::install::COMPONENT;

impl Resolver<'_> {
    /// The section `[installs]` of a recipe whose own machine has this architecture.
    pub(super) fn installs(
        &mut self,
        recipe: &RecipeFile,
        architecture: Option<Architecture>,
    ) -> Option<Installs> {
        let section = self.with_its_pod(
            recipe,
            (COMPONENT, COMPONENT),
            recipe.installs.as_ref(),
            "installs",
            "add `[installs]` with a `recipe` and its `settings`, or remove the pod",
        )?;
        for (key, spot) in section.present() {
            self.note(format!("installs.{key}"), spot);
        }
        let target = section.recipe.as_ref()?;
        self.check_target(target, architecture);
        let settings = section.settings.as_ref()?;
        if read_file::<InstallerFile>(self.project, settings, &mut self.problems).is_none() {
            let message = format!("no file `{}` in the project", &*settings.value);
            self.problem(&settings.spot, message);
        }
        Some(Installs { recipe: target.to_string(), settings: settings.to_string() })
    }

    /// A section that needs a pod of this name and component, which in turn needs the section.
    /// `None` means that the recipe has no such section.
    pub(super) fn with_its_pod<'r, T>(
        &mut self,
        recipe: &RecipeFile,
        (pod_name, component): (&str, &str),
        section: Option<&'r Located<T>>,
        name: &str,
        hint: &str,
    ) -> Option<&'r Located<T>> {
        let mut pods = recipe.pods.iter().flat_map(|pods| pods.values());
        let pod =
            pods.find(|entry| entry.component().is_some_and(|named| *named.value == *component));
        match (section, pod) {
            (None, Some(pod)) => {
                let message = format!("the pod `{component}` does nothing without `[{name}]`");
                self.problems.push(Problem::new(message).at(pod.key.place()).hint(hint));
            }
            (Some(section), None) => {
                let message = format!("`[{name}]` has no effect without the pod `{component}`");
                let entry = format!("{pod_name} = {{ component = \"{component}\" }}");
                let problem = Problem::new(message).at(section.spot.place());
                self.problems.push(problem.hint(format!("add `{entry}` to `[pods]`")));
            }
            _ => {}
        }
        section
    }

    /// The target must be a node of the same architecture that is not itself an installer.
    fn check_target(&mut self, target: &Located<Name>, architecture: Option<Architecture>) {
        let name = &*target.value;
        let Some(recipe) = RECIPES.read_part(self.project, name, &mut Vec::new()) else {
            let absent = RECIPES.absent(self.project, name).at(target.spot.place());
            self.problems.push(absent);
            return;
        };
        if recipe.installs.is_some() {
            self.problem(&target.spot, format!("`{name}` is an installer itself"));
        }
        // The values of the stick come from its own board.
        let origins = self.origins.clone();
        let board = recipe.board.as_ref().and_then(|board| self.board(board));
        self.origins = origins;
        match (board.map(|(its, ..)| its), architecture) {
            (None, _) => self
                .problem(&target.spot, format!("`{name}` names no board, so it cannot be built")),
            (Some(its), Some(ours)) if its != ours => self.problem(
                &target.spot,
                format!("`{name}` is for {its}, and the stick is for {ours}"),
            ),
            _ => {}
        }
    }
}
