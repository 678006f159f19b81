//! The version-skew policy at the places where a recipe names versions.

use super::Resolver;
use crate::plan::component::Place;
use crate::plan::document::{Node, Spot};
use crate::plan::releases::{Releases, absent};
use crate::plan::skew::{self, About, Fits, Severity, Strictness};
use crate::plan::{Binary, BinaryName, Date, Exception, Kubernetes, Minor, Version};

impl Resolver<'_> {
    /// What the policy looks at, and what it warns of. What it refuses becomes problems.
    pub(super) fn kubernetes(
        &mut self,
        recipe: &Node,
        binaries: Option<&[Binary; 7]>,
        today: Date,
        strictness: Strictness,
    ) -> Option<Kubernetes> {
        let releases = self.releases();
        let version = |name: BinaryName| {
            let found = binaries?.iter().find(|binary| binary.name == name)?;
            found.version.as_ref()?.parse::<Version>().ok()
        };
        let section = recipe.get("kubernetes");
        let kubernetes = Kubernetes {
            kubelet: version(BinaryName::Kubelet)?,
            containerd: version(BinaryName::Containerd)?,
            api_servers: section
                .into_iter()
                .flat_map(api_servers)
                .map(|(minor, _)| minor)
                .collect(),
            exception: section.and_then(|section| section.get("exception")).and_then(exception),
        };
        for (key, entry) in recipe.entries_of("kubernetes") {
            self.note(format!("kubernetes.{key}"), &entry.key);
        }
        let fits = self.fits(binaries);
        for finding in skew::judge(&kubernetes, &releases?, &fits, today) {
            let place = spot(recipe, finding.about).map(Spot::place);
            match (finding.severity, strictness) {
                (Severity::Refused, _) | (Severity::Dated, Strictness::Lock) => {
                    self.problems.push(crate::error::Problem { place, ..finding.problem });
                }
                _ => self.warnings.push(finding.problem.message),
            }
        }
        Some(kubernetes)
    }

    fn releases(&mut self) -> Option<Releases> {
        let Some(text) = self.project.text(Releases::PATH, &mut self.problems) else {
            self.problems.push(absent());
            return None;
        };
        Releases::parse(text).map_err(|error| self.problems.extend(error.problems)).ok()
    }

    /// The table in the component of the container runtime.
    fn fits(&mut self, binaries: Option<&[Binary; 7]>) -> Fits {
        let runtime = binaries
            .and_then(|all| all.iter().find(|binary| binary.name == BinaryName::Containerd));
        let component = runtime.and_then(|binary| {
            self.components.find(Place::Host, &binary.component, &mut self.problems)
        });
        let row = |(minor, entry): (&String, &crate::plan::document::Entry)| {
            let firsts =
                entry.node.list().iter().filter_map(|node| node.text()?.parse().ok()).collect();
            Some((minor.parse().ok()?, firsts))
        };
        component
            .iter()
            .flat_map(|component| component.entries_of("kubernetes"))
            .filter_map(row)
            .collect()
    }
}

fn api_servers(section: &Node) -> impl Iterator<Item = (Minor, &Node)> {
    let listed = section.get("api-servers").map(Node::list).unwrap_or_default();
    listed.iter().filter_map(|node| Some((node.text()?.parse().ok()?, node)))
}

fn exception(node: &Node) -> Option<Exception> {
    Some(Exception {
        reason: node.text_of("reason")?.to_owned(),
        until: node.get("until")?.date()?,
    })
}

/// Where a finding is shown.
fn spot(recipe: &Node, about: About) -> Option<&Spot> {
    let version = |name: BinaryName| recipe.get("binaries")?.get(name.file_name())?.get("version");
    let node = match about {
        About::Kubelet => version(BinaryName::Kubelet)?,
        About::Containerd => version(BinaryName::Containerd)?,
        About::ApiServer(minor) => {
            api_servers(recipe.get("kubernetes")?).find(|(found, _)| *found == minor)?.1
        }
        About::Exception => recipe.get("kubernetes")?.get("exception")?,
    };
    Some(&node.spot)
}
