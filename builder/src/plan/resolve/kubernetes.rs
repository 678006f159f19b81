//! The version-skew policy, applied to the versions that a recipe names.

use super::Resolver;
use super::components::Place;
use crate::error::Problem;
use crate::plan::document::{Located, Spot};
use crate::plan::keys::{ExceptionTable, PodEntry, RecipeFile, Table};
use crate::plan::kubernetes::releases::absent;
use crate::plan::kubernetes::skew::{self, Severity, Strictness, Subject, Supported};
use crate::plan::{
    BinaryName, Date, Exception, HostComponent, KUBERNETES, Kubernetes, Pod, PodImage, Releases,
    Version,
};

impl Resolver<'_> {
    /// The versions of the node, checked with the skew policy. Refused findings are added to the
    /// problems, and so are dated ones under [`Strictness::Lock`]; all others are warnings.
    pub(super) fn kubernetes(
        &mut self,
        recipe: &RecipeFile,
        components: Option<&[HostComponent]>,
        pods: &[Pod],
        today: Date,
        strictness: Strictness,
    ) -> Option<Kubernetes> {
        let releases = self.releases();
        let component = |name: BinaryName| {
            components?.iter().find(|component| component.binaries.contains(&name))
        };
        let [kubelet, containerd] = [BinaryName::Kubelet, BinaryName::Containerd]
            .map(|name| self.upstream_version(recipe, name, component(name)?));
        let section = recipe.kubernetes.as_ref();
        let api_servers = section.and_then(|section| section.api_servers.as_ref());
        let kubernetes = Kubernetes {
            kubelet: kubelet?,
            containerd: containerd?,
            api_servers: api_servers.iter().flat_map(|list| list.iter().map(|m| m.value)).collect(),
            exception: section
                .and_then(|section| section.exception.as_ref())
                .and_then(|table| exception(table)),
        };
        for (key, spot) in section.iter().flat_map(|section| section.present()) {
            self.note(format!("kubernetes.{key}"), spot);
        }
        let supported = self.supported(component(BinaryName::Containerd)?);
        for finding in skew::check(&kubernetes, &releases?, &supported, today) {
            let place = spot(recipe, finding.subject).map(Spot::place);
            match (finding.severity, strictness) {
                (Severity::Refused, _) | (Severity::Dated, Strictness::Lock) => {
                    self.problems.push(Problem { place, ..finding.problem });
                }
                _ => self.warnings.push(finding.problem.message),
            }
        }
        self.check_own_control_plane(recipe, pods, kubernetes.kubelet);
        Some(kubernetes)
    }

    /// The version of a binary that the policy compares with others. A component of this workspace
    /// has none, which is a problem.
    fn upstream_version(
        &mut self,
        recipe: &RecipeFile,
        name: BinaryName,
        component: &HostComponent,
    ) -> Option<Version> {
        let version = component.version();
        if version.is_none() {
            let message = format!("`{name}` needs a component with an upstream version");
            let cause = format!("component `{}` is a program of this workspace", component.name());
            let entry = recipe.binaries.as_ref().and_then(|section| section.entry(name));
            let place = entry.map(|entry| entry.spot.place());
            self.problems.push(Problem { place, ..Problem::new(message).cause(cause) });
        }
        version
    }

    /// kubeadm in the image of a pod makes the node a control plane, whose API server has the same
    /// minor. The kubelet must be able to join that, too.
    fn check_own_control_plane(&mut self, recipe: &RecipeFile, pods: &[Pod], kubelet: Version) {
        for pod in pods {
            let payload = pod.images.iter().find_map(PodImage::payload).map(|one| &one.go);
            let Some(go) = payload.filter(|go| go.module == KUBERNETES) else { continue };
            let Some(cause) = skew::obstacle(kubelet.minor, go.version.minor) else { continue };
            let mut entries = recipe.pods.iter().flat_map(|pods| pods.iter());
            let entry = entries.find(|(name, _)| ***name == *pod.name);
            let version = entry.and_then(|(_, entry)| match &entry.value {
                PodEntry::Component(component) => component.version.as_ref(),
                _ => None,
            });
            let message = format!(
                "kubelet {kubelet} cannot join the API server {} that {} makes here",
                go.version.minor, go.name
            );
            let problem = Problem::new(message).cause(cause);
            let place = version.map(|version| version.spot.place());
            let hint = format!("give `{}` and the kubelet versions of one minor", go.name);
            self.problems.push(Problem { place, ..problem.hint(hint) });
        }
    }

    fn releases(&mut self) -> Option<Releases> {
        let Some(text) = self.project.text(Releases::PATH, &mut self.problems) else {
            self.problems.push(absent());
            return None;
        };
        Releases::parse(text).map_err(|error| self.problems.extend(error.problems)).ok()
    }

    /// The table in the component of the container runtime.
    fn supported(&mut self, runtime: &HostComponent) -> Supported {
        let found = self.components.find(Place::Host, runtime.name(), &mut self.problems);
        let table = found.as_ref().and_then(|component| component.kubernetes.as_ref());
        let rows = table.iter().flat_map(|table| table.iter());
        rows.map(|(minor, list)| (*minor, list.iter().map(|first| first.value).collect())).collect()
    }
}

fn exception(table: &ExceptionTable) -> Option<Exception> {
    Some(Exception {
        reason: table.reason.as_ref()?.to_string(),
        until: table.until.as_ref()?.value,
    })
}

/// Where a finding is shown.
fn spot(recipe: &RecipeFile, subject: Subject) -> Option<&Spot> {
    let version = |name: BinaryName| {
        let entry = recipe.binaries.as_ref()?.entry(name)?;
        entry.version.as_ref().map(|version| &version.spot)
    };
    let section = recipe.kubernetes.as_ref();
    match subject {
        Subject::Kubelet => version(BinaryName::Kubelet),
        Subject::Containerd => version(BinaryName::Containerd),
        Subject::ApiServer(minor) => {
            let list = section?.api_servers.as_ref()?;
            list.iter().find(|found| found.value == minor).map(|found| &found.spot)
        }
        Subject::Exception => section?.exception.as_ref().map(|Located { spot, .. }| spot),
    }
}
