//! The seven host binaries of a plan.

use super::Resolver;
use crate::error::{Problem, in_words};
use crate::plan::component::Place;
use crate::plan::document::Node;
use crate::plan::{Binary, BinaryName, Cgo, Compile, GoBuild, GoOutput, Version};

impl Resolver<'_> {
    pub(super) fn binaries(&mut self, recipe: &Node) -> Option<[Binary; 7]> {
        let section = recipe.get("binaries")?.clone();
        let all: Vec<Option<Binary>> =
            BinaryName::ALL.into_iter().map(|name| self.binary(&section, name)).collect();
        let all: Vec<Binary> = all.into_iter().collect::<Option<_>>()?;
        let versions: Vec<_> = all
            .iter()
            .map(|binary| (binary.name.file_name(), &*binary.component, binary.version.as_deref()))
            .collect();
        self.one_version_a_component(&section, &versions);
        all.try_into().ok()
    }

    fn binary(&mut self, section: &Node, name: BinaryName) -> Option<Binary> {
        let key = name.file_name();
        let asked = section.get(key)?;
        let (component, build) = self.compiled("binaries", Place::Host, key, asked)?;
        let version = asked.get("version").and_then(Node::text).map(str::to_owned);
        Some(Binary { name, component, version, build })
    }

    /// The component that makes the program `key` of the recipe's section `part`, and how it is
    /// compiled. Programs for the machine that builds come from Go modules alone.
    pub(super) fn compiled(
        &mut self,
        part: &str,
        place: Place,
        key: &str,
        asked: &Node,
    ) -> Option<(String, Compile)> {
        let named = asked.get("component")?;
        let component_name = named.text()?;
        let version = asked.get("version");
        self.note(format!("{part}.{key}.component"), &named.spot);
        let component = self.components.find(place, component_name, &mut self.problems);
        let is_ours = place == Place::Host
            && component.as_ref().is_some_and(|component| component.get("cargo").is_some());
        let kind = if is_ours { "cargo" } else { "go" };
        let component =
            self.components.get(place, component_name, kind, &named.spot, &mut self.problems)?;
        let section = component.get(kind)?;
        let build = if is_ours {
            self.cargo(section, key, named)
        } else {
            self.go(section, key, named, version)
        };
        match (is_ours, version) {
            (true, Some(version)) => {
                let problem = Problem::new(format!("`{key}` has no upstream version"))
                    .at(version.spot.place());
                self.problems.push(
                    problem.cause(format!(
                        "component `{component_name}` is a program of this workspace"
                    )),
                );
            }
            (false, None) => {
                let problem =
                    Problem::new(format!("`{key}` has no `version`")).at(asked.spot.place());
                self.problems.push(problem.cause(format!(
                    "component `{component_name}` is built from a pinned upstream version"
                )));
            }
            (false, Some(version)) => self.note(format!("{part}.{key}.version"), &version.spot),
            (true, None) => {}
        }
        Some((component_name.to_owned(), build?))
    }

    fn cargo(&mut self, section: &Node, file: &str, named: &Node) -> Option<Compile> {
        let package = section.text_of("package")?.to_owned();
        let programs: Vec<&str> =
            section.get("programs")?.list().iter().filter_map(Node::text).collect();
        self.makes(file, &programs, named)?;
        Some(Compile::Cargo { package, bin: file.to_owned() })
    }

    fn go(
        &mut self,
        section: &Node,
        file: &str,
        named: &Node,
        version: Option<&Node>,
    ) -> Option<Compile> {
        let programs: Vec<&str> =
            section.entries_of("programs").map(|(name, _)| name.as_str()).collect();
        self.makes(file, &programs, named)?;
        go_build(section, version?.text()?).map(Compile::Go)
    }

    /// Says that a component does not make a program of this name, if it does not.
    fn makes(&mut self, file: &str, programs: &[&str], named: &Node) -> Option<()> {
        if programs.contains(&file) {
            return Some(());
        }
        let component = named.text()?;
        let problem = Problem::new(format!("component `{component}` does not make `{file}`"))
            .at(named.spot.place());
        self.problems
            .push(problem.cause(format!("it makes {}", in_words(programs.iter().copied()))));
        None
    }

    /// The programs of one component are compiled together, so their versions are equal. `all` has
    /// each program's file name, component and version.
    pub(super) fn one_version_a_component(
        &mut self,
        section: &Node,
        all: &[(&str, &str, Option<&str>)],
    ) {
        for (index, (name, component, version)) in all.iter().enumerate() {
            let earlier = all[..index]
                .iter()
                .find(|(_, other, theirs)| other == component && theirs != version);
            let (Some((earlier, ..)), Some(asked)) = (earlier, section.get(name)) else { continue };
            let problem = Problem::new(format!("`{earlier}` and `{name}` must have one version"));
            let problem = problem.at(asked.spot.place());
            self.problems
                .push(problem.cause(format!("both are built from component `{component}`")));
        }
    }
}

/// How the section `[go]` of a component says that its programs are compiled, at this version.
pub(super) fn go_build(section: &Node, version: &str) -> Option<GoBuild> {
    let number: Version = version.parse().ok()?;
    let output = |(file, entry): (&String, &crate::plan::document::Entry)| {
        Some(GoOutput { file: file.clone(), package: entry.node.text()?.to_owned() })
    };
    let fill = |flag: String| {
        let flag =
            flag.replace("{version}", version).replace("{major}", &number.minor.major.to_string());
        flag.replace("{minor}", &number.minor.minor.to_string())
    };
    Some(GoBuild {
        module: section.text_of("module")?.to_owned(),
        version: format!("v{version}"),
        packages: section.entries_of("programs").filter_map(output).collect(),
        tags: texts(section.get("tags")),
        ldflags: texts(section.get("ldflags")).into_iter().map(fill).collect(),
        cgo: section.get("libraries").map(|libraries| Cgo { debian: texts(Some(libraries)) }),
        wrapper: section.get("wrapper").is_some(),
    })
}

/// The strings of a list, none where there is no list.
pub(super) fn texts(list: Option<&Node>) -> Vec<String> {
    list.into_iter().flat_map(Node::list).filter_map(Node::text).map(str::to_owned).collect()
}
