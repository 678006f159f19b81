//! What a stick installs, and that it has the pod that does so.

use super::{RECIPES, Resolver};
use crate::error::Problem;
use crate::plan::document::{Entry, Node, Spot};
use crate::plan::inherit::read_file;
use crate::plan::keys::INSTALLER;
use crate::plan::{Architecture, Installs};
use osbuild_abi::install::COMPONENT;

impl Resolver<'_> {
    /// The section `[installs]` of a recipe, whose own machine is of this architecture.
    pub(super) fn installs(
        &mut self,
        recipe: &Node,
        architecture: Option<Architecture>,
    ) -> Option<Installs> {
        let is_installer =
            |(_, entry): &(&String, &Entry)| entry.node.text_of("component") == Some(COMPONENT);
        let pod = recipe.entries_of("pods").find(is_installer).map(|(_, entry)| entry.key.place());
        let section = match (recipe.get("installs"), pod) {
            (None, None) => return None,
            (None, Some(place)) => {
                let problem = Problem::new(format!(
                    "the pod `{COMPONENT}` has nothing to do without `[installs]`"
                ))
                .at(place);
                self.problems.push(problem.hint(
                    "add `[installs]` with a `recipe` and its `settings`, or take the pod away",
                ));
                return None;
            }
            (Some(section), None) => {
                let problem = Problem::new(format!(
                    "`[installs]` has no effect without the pod `{COMPONENT}`"
                ));
                let hint =
                    format!("add `{COMPONENT} = {{ component = \"{COMPONENT}\" }}` to `[pods]`");
                self.problems.push(problem.at(section.spot.place()).hint(hint));
                section
            }
            (Some(section), Some(_)) => section,
        };
        for (key, entry) in recipe.entries_of("installs") {
            self.note(format!("installs.{key}"), &entry.key);
        }
        let named = section.get("recipe")?;
        self.target(named.text()?, &named.spot, architecture);
        let settings = section.get("settings")?;
        if read_file(self.project, settings.text()?, INSTALLER, &mut self.problems).is_none() {
            self.problem(&settings.spot, format!("no file `{}` in the project", settings.text()?));
        }
        Some(Installs { recipe: named.text()?.to_owned(), settings: settings.text()?.to_owned() })
    }

    /// What is installed must be a node of the same architecture that installs nothing itself.
    fn target(&mut self, name: &str, spot: &Spot, architecture: Option<Architecture>) {
        let Some((target, _)) = RECIPES.read_part(self.project, name, &mut Vec::new()) else {
            let absent = RECIPES.absent(self.project, name).at(spot.place());
            self.problems.push(absent);
            return;
        };
        if target.get("installs").is_some() {
            self.problem(spot, format!("`{name}` installs something itself"));
        }
        let board = target.text_of("board").and_then(|board| self.board(board));
        match (board.map(|(its, ..)| its), architecture) {
            (None, _) => {
                self.problem(spot, format!("`{name}` names no board, and nothing is built of it"))
            }
            (Some(its), Some(ours)) if its != ours => {
                self.problem(spot, format!("`{name}` is for {its}, and the stick for {ours}"));
            }
            _ => {}
        }
    }
}
