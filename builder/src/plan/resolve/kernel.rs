//! The kernel: the fragments of its component and of its groups, overridden by the board's options,
//! and those by the recipe's.

use super::Resolver;
use super::components::{Component, Place};
use crate::error::{Problem, in_words};
use crate::plan::document::{Located, Spot, Text, nearest};
use crate::plan::keys::{
    BoardFile, ComponentKernelTable, KernelWord, List, Name, RecipeFile, RecipeKernelTable,
};
use crate::plan::node::fragment::{self, Options};
use crate::plan::{Architecture, Kernel, MAX_COMMAND_LINE, NodeSpec, OptionValue};
use std::collections::BTreeMap;
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
            options.extend(self.fragment(&component, &name.value, &name.spot));
        }
        let groups = self.groups(&kernel, asked);
        let mut left_out = BTreeMap::new();
        for (name, group) in &groups {
            let of_group = self.group(&component, name, &group.key, architecture);
            match group.value {
                true => options.extend(of_group),
                false => {
                    left_out.insert(name.to_string(), turned_on(of_group));
                }
            }
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
        let groups = groups.into_iter().map(|(name, group)| (name.to_string(), group.value));
        let package = package.to_string();
        Some(Kernel { package, groups: groups.collect(), left_out, options, command_line })
    }

    /// The groups of the component, each with whether the node has it.
    fn groups(
        &mut self,
        kernel: &ComponentKernelTable,
        asked: &RecipeKernelTable,
    ) -> BTreeMap<Name, Located<bool>> {
        let of_component = kernel.groups.as_ref();
        let mut groups = of_component.map_or_else(BTreeMap::new, |groups| (*groups.value).clone());
        for (name, group) in asked.groups.iter().flat_map(|groups| groups.value.iter()) {
            match groups.get_mut(name) {
                Some(known) => *known = group.clone(),
                None => self.problems.push(no_group(name, &group.key, groups.keys())),
            }
        }
        for (name, group) in &groups {
            self.note(format!("kernel.groups.{}", &**name), &group.key);
        }
        groups
    }

    /// The options of a group: its fragment, and the one for the architecture, if there is one.
    fn group(
        &mut self,
        component: &Component,
        name: &Name,
        spot: &Spot,
        architecture: Architecture,
    ) -> Options {
        let mut options = self.fragment(component, name, spot);
        let name = format!("{}-{}", &**name, architecture.name());
        if self.project.has(&path(component, &name)) {
            options.extend(self.fragment(component, &name, spot));
        }
        options
    }

    fn fragment(&mut self, component: &Component, name: &str, spot: &Spot) -> Options {
        let path = path(component, name);
        let Some(text) = self.project.text(&path, &mut self.problems) else {
            let folder = folder(component);
            let known = self.project.files.keys();
            let known =
                known.filter_map(|path| path.strip_prefix(&folder)?.strip_suffix(".config"));
            let hint = nearest(name, known).map(|near| format!("did you mean `{near}`?"));
            let problem = Problem::new(format!("no fragment `{name}`"))
                .at(spot.place())
                .cause(format!("there is no `{path}`"));
            self.problems.push(Problem { hint, ..problem });
            return Options::new();
        };
        fragment::parse(&Arc::new(Text { name: path, text: text.to_owned() }), &mut self.problems)
    }

    /// The words of the board, then those of the recipe. A repeated word is refused: it would hide
    /// a mistake.
    fn command_line(&mut self, lists: [Option<&Located<List<KernelWord>>>; 2]) -> Vec<String> {
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

    /// Refuses a command line of which the kernel would drop the end, where the settings of `init`
    /// are. The lock's epoch is not known yet, so the longest one counts.
    pub(super) fn check_command_line(
        &mut self,
        node: &NodeSpec,
        recipe: &RecipeFile,
        board: &BoardFile,
    ) {
        let length = node.command_line(u64::MAX).len();
        if length <= MAX_COMMAND_LINE {
            return;
        }
        let of_recipe = recipe.kernel.as_ref().and_then(|kernel| kernel.command_line.as_ref());
        let of_board = board.kernel.as_ref().and_then(|kernel| kernel.command_line.as_ref());
        let lists = of_recipe.or(of_board).map(|list| &list.spot);
        let servers = recipe.time_servers.as_ref().or(board.time_servers.as_ref());
        let problem = Problem::new(format!(
            "the kernel's command line can have {length} bytes, and the kernel keeps \
             {MAX_COMMAND_LINE}"
        ));
        let problem = problem
            .cause("the settings of `init` are at its end")
            .hint("shorten `command-line` of the recipe and of its board, or `time-servers`");
        let spot = lists.or(servers.map(|list| &list.spot));
        self.problems.push(match spot {
            Some(spot) => problem.at(spot.place()),
            None => problem,
        });
    }
}

/// The problem that the component has no group of this name, only those `known`.
fn no_group<'n>(name: &str, spot: &Spot, known: impl Iterator<Item = &'n Name> + Clone) -> Problem {
    let known = known.map(|known| &**known);
    let hint = match nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", in_words(known)),
    };
    Problem::new(format!("the kernel has no group `{name}`")).at(spot.place()).hint(hint)
}

/// The names of the options that are on.
fn turned_on(options: Options) -> Vec<String> {
    let on = options.into_iter().filter(|(_, option)| option.value == OptionValue::Yes);
    on.map(|(name, _)| name).collect()
}

/// The folder of a component's fragments.
fn folder(component: &Component) -> String {
    component.spot.file().replace("component.toml", "fragments/")
}

/// The path of a fragment.
fn path(component: &Component, name: &str) -> String {
    format!("{}{name}.config", folder(component))
}
