//! The components that a recipe names, each read once.

use super::document::{Node, Spot};
use super::inherit::{Kind, read_file};
use super::keys;
use super::project::Project;
use crate::error::Problem;
use std::collections::BTreeMap;

/// What is built from elsewhere or from this workspace: `components/<name>/component.toml`.
static HOST: Kind = Kind {
    what: "component",
    prefix: "components/",
    suffix: "/component.toml",
    keys: keys::COMPONENT,
};
/// What runs as a pod: `components/pods/<name>/component.toml`.
static PODS: Kind = Kind {
    what: "pod component",
    prefix: "components/pods/",
    suffix: "/component.toml",
    keys: keys::COMPONENT,
};

/// What runs on the machine that tests: `components/lab/<name>/component.toml`.
static LAB: Kind = Kind {
    what: "lab component",
    prefix: "components/lab/",
    suffix: "/component.toml",
    keys: keys::COMPONENT,
};

/// Components by path.
pub(super) struct Components<'p> {
    project: &'p Project,
    read: BTreeMap<String, Option<Node>>,
}

/// Where a component is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Beside the host's components.
    Host,
    /// Among the pods.
    Pods,
    /// Among what runs on the machine that tests, or else beside the host's.
    Lab,
}

impl<'p> Components<'p> {
    /// None is read yet.
    pub fn new(project: &'p Project) -> Self {
        Components { project, read: BTreeMap::new() }
    }

    /// The component that is named at `spot`, which must have `section`.
    pub fn get(
        &mut self,
        place: Place,
        name: &str,
        section: &str,
        spot: &Spot,
        problems: &mut Vec<Problem>,
    ) -> Option<Node> {
        let Some(component) = self.find(place, name, problems) else {
            problems.push(place.kind().absent(self.project, name).at(spot.place()));
            return None;
        };
        if component.get(section).is_none() {
            let problem =
                Problem::new(format!("component `{name}` cannot be used here")).at(spot.place());
            problems
                .push(problem.cause(format!("`{}` has no `[{section}]`", component.spot.file())));
            return None;
        }
        Some(component)
    }

    /// The component of this name, if there is one.
    pub fn find(&mut self, place: Place, name: &str, problems: &mut Vec<Problem>) -> Option<Node> {
        let kind = place.kind();
        let (lab, host) = (kind.path(name), HOST.path(name));
        // What runs on the machine that tests may be a program of a node, too.
        let path = if place == Place::Lab && !self.project.has(&lab) && self.project.has(&host) {
            host
        } else {
            lab
        };
        let read = || read_file(self.project, &path, kind.keys, problems).map(|(node, _)| node);
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
    pub fn used(&self) -> impl Iterator<Item = &Node> {
        self.read.values().flatten()
    }
}

impl Place {
    fn kind(self) -> &'static Kind {
        match self {
            Place::Host => &HOST,
            Place::Pods => &PODS,
            Place::Lab => &LAB,
        }
    }
}

/// The path of a file that `from` names relative to itself: `recipes/a.toml` and `b.yaml` make
/// `recipes/b.yaml`.
pub(super) fn relative(from: &str, file: &str) -> String {
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
