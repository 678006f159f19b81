//! The kernel: the fragments of its component, overridden by the board's options, and those by the
//! recipe's.

use super::Resolver;
use super::components::{Component, Place};
use crate::error::Problem;
use crate::plan::document::{Located, Text, nearest};
use crate::plan::keys::{BoardFile, List, Name, RecipeFile, Word};
use crate::plan::node::fragment::{self, Options};
use crate::plan::{Architecture, Kernel};
use std::sync::Arc;

impl Resolver<'_> {
    pub(super) fn kernel(
        &mut self,
        recipe: &RecipeFile,
        board: Option<&BoardFile>,
        architecture: Architecture,
    ) -> Option<Kernel> {
        let asked = recipe.kernel.as_ref()?;
        let named = asked.component.as_ref()?;
        let (component, kernel) =
            self.components.section(Place::Host, named, &section!(kernel), &mut self.problems)?;
        let board = board.and_then(|board| board.kernel.as_ref());
        let package = kernel.package.as_ref()?;
        self.note("kernel.package", &package.spot);

        let of_board = board.and_then(|board| board.fragments.as_ref());
        let lists = [&kernel.fragments, kernel.fragments_of(architecture)];
        let lists = lists.into_iter().flatten().chain(of_board);
        let mut options = Options::new();
        for name in lists.flat_map(|list| &list.value) {
            options.extend(self.fragment(&component, name));
        }
        let of_board = board.and_then(|board| board.options.as_ref());
        for table in of_board.into_iter().chain(&asked.options) {
            options.extend(fragment::from_table(table, &mut self.problems));
        }
        for (name, option) in &options {
            self.origins.insert(format!("kernel.options.{name}"), option.origin.clone());
        }
        let of_board = board.and_then(|board| board.command_line.as_ref());
        let command_line = self.command_line([of_board, asked.command_line.as_ref()]);
        Some(Kernel { package: package.to_string(), options, command_line })
    }

    fn fragment(&mut self, component: &Component, named: &Located<Name>) -> Options {
        let name = &*named.value;
        let folder = component.spot.file().replace("component.toml", "fragments/");
        let path = format!("{folder}{name}.config");
        let Some(text) = self.project.text(&path, &mut self.problems) else {
            let known = self.project.files.keys();
            let known =
                known.filter_map(|path| path.strip_prefix(&folder)?.strip_suffix(".config"));
            let hint = nearest(name, known).map(|near| format!("did you mean `{near}`?"));
            let problem = Problem::new(format!("no fragment `{name}`"))
                .at(named.spot.place())
                .cause(format!("there is no `{path}`"));
            self.problems.push(Problem { hint, ..problem });
            return Options::new();
        };
        fragment::parse(&Arc::new(Text { name: path, text: text.to_owned() }), &mut self.problems)
    }

    /// The words of the board, then those of the recipe. A repeated word is refused: it would hide
    /// a mistake.
    fn command_line(&mut self, lists: [Option<&Located<List<Word>>>; 2]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in lists.into_iter().flatten().flat_map(|list| &list.value) {
            let text = &*word.value;
            if words.iter().any(|earlier| earlier == text) {
                self.problem(&word.spot, format!("`{text}` is on the kernel's command line twice"));
            }
            if text.starts_with("osbuild.") {
                self.problem(&word.spot, format!("only the builder can set `{text}`"));
            }
            self.note(format!("kernel.command-line.{text}"), &word.spot);
            words.push(text.to_owned());
        }
        words
    }
}
