//! The components of the host, with the seven binaries that come from them.

use super::components::Place;
use super::{Resolver, texts};
use crate::error::{Problem, in_words};
use crate::plan::document::{Located, Spot};
use crate::plan::keys::{GoTable, Name, RecipeFile, Word};
use crate::plan::{BinaryName, Cgo, Compile, GoComponent, GoOutput, HostComponent, Version};
use std::collections::BTreeMap;

/// An entry of `[binaries]` or `[programs]`: a file that a component makes.
#[derive(Clone, Copy)]
pub(super) struct Entry<'r> {
    /// `binaries` or `programs`.
    pub section: &'static str,
    /// Where its component is looked up.
    pub place: Place,
    /// The name of the file.
    pub file: &'r str,
    /// The place of the entry.
    pub spot: &'r Spot,
    /// Its component.
    pub component: &'r Located<Name>,
    /// Its upstream version.
    pub version: Option<&'r Located<Version>>,
}

impl Resolver<'_> {
    /// The components of the host, in order of name.
    pub(super) fn host_components(&mut self, recipe: &RecipeFile) -> Option<Vec<HostComponent>> {
        let section = recipe.binaries.as_ref()?;
        let entry = |name: BinaryName| {
            let entry = section.entry(name)?;
            Some(Entry {
                section: key!(RecipeFile.binaries),
                place: Place::Host,
                file: name.file_name(),
                spot: &entry.spot,
                component: entry.component.as_ref()?,
                version: entry.version.as_ref(),
            })
        };
        let entries = BinaryName::ALL.map(|name| (name, entry(name)));
        let compiled = entries.map(|(name, entry)| Some((name, entry?, self.compiled(entry?)?)));
        let compiled: Vec<_> = compiled.into_iter().collect::<Option<_>>()?;
        let all: Vec<Entry<'_>> = compiled.iter().map(|(_, entry, _)| *entry).collect();
        self.check_versions(&all);
        let mut components = BTreeMap::<&str, HostComponent>::new();
        for (name, entry, build) in compiled {
            let component = components.entry(&entry.component.value);
            let component =
                component.or_insert_with(|| HostComponent { build, binaries: Vec::new() });
            component.binaries.push(name);
        }
        Some(components.into_values().collect())
    }

    /// How the component of an entry is compiled. The lab's are compiled from Go modules.
    fn compiled(&mut self, entry: Entry<'_>) -> Option<Compile> {
        let Entry { section, place, file, component, .. } = entry;
        self.note(format!("{section}.{file}.component"), &component.spot);
        let found = self.components.find(place, component, &mut self.problems);
        let is_ours = place == Place::Host && found.is_some_and(|found| found.cargo.is_some());
        if is_ours { self.cargo(entry) } else { self.go(entry).map(Compile::Go) }
    }

    fn cargo(&mut self, entry: Entry<'_>) -> Option<Compile> {
        let Entry { place, file, component, version, .. } = entry;
        let (_, section) =
            self.components.section(place, component, &section!(cargo), &mut self.problems)?;
        let programs = section.programs.as_ref()?.iter().map(|name| &*name.value);
        let makes = self.check_makes(entry, &programs.collect::<Vec<_>>());
        if let Some(version) = version {
            let problem =
                Problem::new(format!("`{file}` has no upstream version")).at(version.spot.place());
            let name = &*component.value;
            self.problems
                .push(problem.cause(format!("component `{name}` is a program of this workspace")));
        }
        makes?;
        let package = section.package.as_ref()?.to_string();
        Some(Compile::Cargo { component: component.to_string(), package })
    }

    /// The Go component of an entry.
    pub(super) fn go(&mut self, entry: Entry<'_>) -> Option<GoComponent> {
        let Entry { section: part, place, file, spot, component, version } = entry;
        let (_, section) =
            self.components.section(place, component, &section!(go), &mut self.problems)?;
        let programs = section.programs.as_ref()?.keys();
        let programs = programs.chain(section.tests.iter().flat_map(|tests| tests.keys()));
        let programs = programs.map(|name| &**name);
        let makes = self.check_makes(entry, &programs.collect::<Vec<_>>());
        let Some(version) = version else {
            let problem = Problem::new(format!("`{file}` has no `version`")).at(spot.place());
            let name = &*component.value;
            let cause = format!("component `{name}` is built from a pinned upstream version");
            self.problems.push(problem.cause(cause));
            return None;
        };
        self.note(format!("{part}.{file}.version"), &version.spot);
        makes?;
        self.go_component(component, &section, version.value)
    }

    /// Reports a component that does not make the file of an entry.
    fn check_makes(&mut self, entry: Entry<'_>, programs: &[&str]) -> Option<()> {
        let Entry { file, component, .. } = entry;
        if programs.contains(&file) {
            return Some(());
        }
        let name = &*component.value;
        let problem = Problem::new(format!("component `{name}` does not make `{file}`"))
            .at(component.spot.place());
        self.problems
            .push(problem.cause(format!("it makes {}", in_words(programs.iter().copied()))));
        None
    }

    /// Reports entries of one component at different versions: they are compiled together.
    pub(super) fn check_versions(&mut self, entries: &[Entry<'_>]) {
        let version = |entry: &Entry<'_>| entry.version.map(|version| version.value);
        for (index, entry) in entries.iter().enumerate() {
            let (file, name) = (entry.file, &entry.component.value);
            let differs = |earlier: &&Entry<'_>| {
                earlier.component.value == *name && version(earlier) != version(entry)
            };
            let Some(Entry { file: earlier, .. }) = entries[..index].iter().find(differs) else {
                continue;
            };
            let problem = Problem::new(format!("`{earlier}` and `{file}` must have one version"))
                .at(entry.spot.place());
            self.problems
                .push(problem.cause(format!("both are built from component `{}`", &**name)));
        }
    }

    /// The Go component of this name, whose section `[go]` is `section`, at a version.
    pub(super) fn go_component(
        &mut self,
        name: &str,
        section: &GoTable,
        version: Version,
    ) -> Option<GoComponent> {
        if let (Some(_), Some(empty)) = (&section.wrapper, &section.empty_packages) {
            self.problem(&empty.spot, "a module with `wrapper` cannot have `empty-packages`");
        }
        let output = |(file, package): (&Name, &Located<Word>)| GoOutput {
            file: file.to_string(),
            package: package.to_string(),
        };
        let fill = |flag: String| {
            let flag = flag.replace("{version}", &version.to_string());
            let flag = flag.replace("{major}", &version.minor.major.to_string());
            flag.replace("{minor}", &version.minor.minor.to_string())
        };
        let libraries = section.libraries.as_ref();
        Some(GoComponent {
            name: name.to_owned(),
            module: section.module.as_ref()?.to_string(),
            version,
            packages: section.programs.as_ref()?.iter().map(output).collect(),
            tests: section.tests.iter().flat_map(|tests| tests.iter()).map(output).collect(),
            tags: texts(section.tags.as_ref()),
            ldflags: texts(section.ldflags.as_ref()).into_iter().map(fill).collect(),
            cgo: libraries.map(|libraries| Cgo { debian: texts(Some(libraries)) }),
            wrapper: section.wrapper.is_some(),
            empty_packages: texts(section.empty_packages.as_ref()),
            lock: (),
        })
    }
}
