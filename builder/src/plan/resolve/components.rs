//! The components that a recipe names, each read once.

use crate::error::Problem;
use crate::plan::Project;
use crate::plan::document::Located;
use crate::plan::keys::ComponentFile;
use crate::plan::project::inherit::{Kind, read_file};
use std::collections::BTreeMap;
use std::rc::Rc;

const SUFFIX: &str = "/component.toml";

/// Components of the host: `components/<name>/component.toml`.
static HOST: Kind<ComponentFile> = Kind::new("component", "components/", SUFFIX);
/// Components that run as pods: `components/pods/<name>/component.toml`.
static PODS: Kind<ComponentFile> = Kind::new("pod component", "components/pods/", SUFFIX);
/// Components of the tests' lab: `components/lab/<name>/component.toml`.
static LAB: Kind<ComponentFile> = Kind::new("lab component", "components/lab/", SUFFIX);

/// A component as it is written.
pub type Component = Rc<Located<ComponentFile>>;

/// Components by path.
pub struct Components<'p> {
    project: &'p Project,
    read: BTreeMap<String, Option<Component>>,
}

/// Where a component is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Among the host's components.
    Host,
    /// Among the pods.
    Pods,
    /// In the lab, and then among the host's components.
    Lab,
}

/// A section of a component, with its name for messages.
pub struct Section<T> {
    pub name: &'static str,
    pub of: fn(&ComponentFile) -> Option<&Located<T>>,
}

/// The section of a field: `section!(go)` is `[go]`.
macro_rules! section {
    ($field:ident) => {
        $crate::plan::resolve::components::Section {
            name: key!($field),
            of: |component| component.$field.as_ref(),
        }
    };
}

impl<'p> Components<'p> {
    /// None is read yet.
    pub fn new(project: &'p Project) -> Self {
        Components { project, read: BTreeMap::new() }
    }

    /// A section of the component that is `named` in some file. A component that does not exist, or
    /// lacks the section, is a problem.
    pub fn section<T: Clone>(
        &mut self,
        place: Place,
        named: &Located<impl std::ops::Deref<Target = str>>,
        section: &Section<T>,
        problems: &mut Vec<Problem>,
    ) -> Option<(Component, Located<T>)> {
        let name: &str = &named.value;
        let Some(component) = self.find(place, name, problems) else {
            problems.push(place.kind().absent(self.project, name).at(named.spot.place()));
            return None;
        };
        let Some(found) = (section.of)(&component).cloned() else {
            let problem = Problem::new(format!("component `{name}` cannot be used here"))
                .at(named.spot.place());
            let file = component.spot.file();
            problems.push(problem.cause(format!("`{file}` has no `[{}]`", section.name)));
            return None;
        };
        Some((component, found))
    }

    /// The component of this name, if it exists.
    pub fn find(
        &mut self,
        place: Place,
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Option<Component> {
        let (own, host) = (place.kind().path(name), HOST.path(name));
        // The lab can use a program of a node, too.
        let path = if place == Place::Lab && !self.project.has(&own) && self.project.has(&host) {
            host
        } else {
            own
        };
        let project = self.project;
        let read = || read_file(project, &path, problems).map(Rc::new);
        self.read.entry(path.clone()).or_insert_with(read).clone()
    }

    /// Reads every component that exists.
    pub fn read_all(&mut self, problems: &mut Vec<Problem>) {
        for place in [Place::Host, Place::Pods, Place::Lab] {
            for name in place.kind().names(self.project) {
                self.find(place, name, problems);
            }
        }
    }

    /// Every component that was read so far, in order of path.
    pub fn used(&self) -> impl Iterator<Item = &Component> {
        self.read.values().flatten()
    }
}

impl Place {
    fn kind(self) -> &'static Kind<ComponentFile> {
        match self {
            Place::Host => &HOST,
            Place::Pods => &PODS,
            Place::Lab => &LAB,
        }
    }
}

/// The path of a file that the file `from` names relative to itself: `b.yaml` in `recipes/a.toml`
/// is `recipes/b.yaml`.
pub fn relative(from: &str, file: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => parts.truncate(parts.len().saturating_sub(1)),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
