//! The kernel of a plan: the component's fragments, the board's options over them, the recipe's
//! over those.

use super::Resolver;
use crate::error::Problem;
use crate::plan::component::Place;
use crate::plan::document::{Node, Text};
use crate::plan::fragment::{self, Options};
use crate::plan::nearest::nearest;
use crate::plan::{Architecture, Kernel, KernelOption, OptionValue};
use std::sync::Arc;

impl Resolver<'_> {
    pub(super) fn kernel(
        &mut self,
        recipe: &Node,
        board: Option<&Node>,
        architecture: Architecture,
    ) -> Option<Kernel> {
        let asked = recipe.get("kernel")?;
        let named = asked.get("component")?;
        let component = self.components.get(
            Place::Host,
            named.text()?,
            "kernel",
            &named.spot,
            &mut self.problems,
        )?;
        let kernel = component.get("kernel")?;
        let board = board.and_then(|board| board.get("kernel"));
        let package = kernel.get("package")?;
        self.note("kernel.package", &package.spot);

        let own = format!("fragments-{}", architecture.name());
        let lists = [
            kernel.get("fragments"),
            kernel.get(&own),
            board.and_then(|board| board.get("fragments")),
        ];
        let mut options = Options::new();
        for name in lists.into_iter().flatten().flat_map(Node::list) {
            options.extend(self.fragment(&component, name));
        }
        options.extend(fragment::from_table(board, &mut self.problems));
        options.extend(fragment::from_table(Some(asked), &mut self.problems));
        let command_line = self.command_line([board, Some(asked)]);
        Some(Kernel { package: package.text()?.to_owned(), options, command_line })
    }

    fn fragment(&mut self, component: &Node, name: &Node) -> Options {
        let Some(wanted) = name.text() else { return Options::new() };
        let folder = component.spot.file().replace("component.toml", "fragments/");
        let path = format!("{folder}{wanted}.config");
        let Some(text) = self.project.text(&path, &mut self.problems) else {
            let known = self
                .project
                .files
                .keys()
                .filter_map(|path| path.strip_prefix(&folder)?.strip_suffix(".config"));
            let hint = nearest(wanted, known).map(|near| format!("did you mean `{near}`?"));
            let problem = Problem::new(format!("no fragment `{wanted}`"))
                .at(name.spot.place())
                .cause(format!("there is no `{path}`"));
            self.problems.push(Problem { hint, ..problem });
            return Options::new();
        };
        fragment::parse(&Arc::new(Text { name: path, text: text.to_owned() }), &mut self.problems)
    }

    /// The words of the board and then those of the recipe. A word of both would hide a mistake.
    fn command_line(&mut self, sections: [Option<&Node>; 2]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for node in sections
            .into_iter()
            .flatten()
            .filter_map(|section| section.get("command-line"))
            .flat_map(Node::list)
        {
            let Some(word) = node.text() else { continue };
            if words.iter().any(|before| before == word) {
                self.problem(
                    &node.spot,
                    format!("`{word}` stands on the kernel's command line twice"),
                );
            }
            if word.starts_with("osbuild.") {
                self.problem(&node.spot, format!("`{word}` is set by the builder alone"));
            }
            self.note(format!("kernel.command-line.{word}"), &node.spot);
            words.push(word.to_owned());
        }
        words
    }
}

impl Kernel {
    /// The options as a configuration fragment, in order of name: what `KCONFIG_ALLCONFIG` takes.
    pub fn fragment(&self) -> String {
        let line = |(name, option): (&String, &KernelOption)| match option.value {
            OptionValue::No => format!("# CONFIG_{name} is not set\n"),
            _ => format!("CONFIG_{name}={}\n", option.value),
        };
        self.options.iter().map(line).collect()
    }
}
