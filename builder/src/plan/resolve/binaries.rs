//! The seven host binaries of a plan.

use super::Resolver;
use crate::error::{Problem, in_words};
use crate::plan::component::Place;
use crate::plan::document::Node;
use crate::plan::{Binary, BinaryName, Cgo, Compile, GoBuild, GoOutput, Version};

impl Resolver<'_> {
    pub(super) fn binaries(&mut self, recipe: &Node) -> Option<[Binary; 7]> {
        let section = recipe.get("binaries")?.clone();
        let all: Vec<Option<Binary>> = BinaryName::ALL.into_iter().map(|name| self.binary(&section, name)).collect();
        let all: Vec<Binary> = all.into_iter().collect::<Option<_>>()?;
        self.one_version_a_component(&section, &all);
        all.try_into().ok()
    }

    fn binary(&mut self, section: &Node, name: BinaryName) -> Option<Binary> {
        let key = name.file_name();
        let asked = section.get(key)?;
        let named = asked.get("component")?;
        let component_name = named.text()?;
        let version = asked.get("version");
        self.note(format!("binaries.{key}.component"), &named.spot);
        let component = self.components.find(Place::Host, component_name, &mut self.problems);
        let is_ours = component.as_ref().is_some_and(|component| component.get("cargo").is_some());
        let kind = if is_ours { "cargo" } else { "go" };
        let component = self.components.get(Place::Host, component_name, kind, &named.spot, &mut self.problems)?;
        let section = component.get(kind)?;
        let build = if is_ours { self.cargo(section, key, named) } else { self.go(section, key, named, version) };
        match (is_ours, version) {
            (true, Some(version)) => {
                let problem = Problem::new(format!("`{key}` has no upstream version")).at(version.spot.place());
                self.problems.push(problem.cause(format!("component `{component_name}` is a program of this workspace")));
            }
            (false, None) => {
                let problem = Problem::new(format!("`{key}` has no `version`")).at(asked.spot.place());
                self.problems
                    .push(problem.cause(format!("component `{component_name}` is built from a pinned upstream version")));
            }
            (false, Some(version)) => self.note(format!("binaries.{key}.version"), &version.spot),
            (true, None) => {}
        }
        let version = version.and_then(Node::text).map(str::to_owned);
        Some(Binary { name, component: component_name.to_owned(), version, build: build? })
    }

    fn cargo(&mut self, section: &Node, file: &str, named: &Node) -> Option<Compile> {
        let package = section.text_of("package")?.to_owned();
        let programs: Vec<&str> = section.get("programs")?.list().iter().filter_map(Node::text).collect();
        self.makes(file, &programs, named)?;
        Some(Compile::Cargo { package, bin: file.to_owned() })
    }

    fn go(&mut self, section: &Node, file: &str, named: &Node, version: Option<&Node>) -> Option<Compile> {
        let programs: Vec<&str> = section.entries_of("programs").map(|(name, _)| name.as_str()).collect();
        self.makes(file, &programs, named)?;
        go_build(section, version?.text()?).map(Compile::Go)
    }

    /// Says that a component does not make a program of this name, if it does not.
    fn makes(&mut self, file: &str, programs: &[&str], named: &Node) -> Option<()> {
        if programs.contains(&file) {
            return Some(());
        }
        let component = named.text()?;
        let problem = Problem::new(format!("component `{component}` does not make `{file}`")).at(named.spot.place());
        self.problems.push(problem.cause(format!("it makes {}", in_words(programs.iter().copied()))));
        None
    }

    /// The programs of one component are compiled together, so their versions are equal.
    fn one_version_a_component(&mut self, section: &Node, all: &[Binary]) {
        for (index, binary) in all.iter().enumerate() {
            let earlier =
                all[..index].iter().find(|other| other.component == binary.component && other.version != binary.version);
            let (Some(earlier), Some(asked)) = (earlier, section.get(binary.name.file_name())) else { continue };
            let problem = Problem::new(format!("`{}` and `{}` must have one version", earlier.name, binary.name));
            let problem = problem.at(asked.spot.place());
            self.problems.push(problem.cause(format!("both are built from component `{}`", binary.component)));
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
        let flag = flag.replace("{version}", version).replace("{major}", &number.minor.major.to_string());
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
