//! The static pods of a plan and the images that they run.

use super::Resolver;
use super::components::{Place, relative};
use crate::error::{Problem, in_words};
use crate::plan::document::{Located, Spot, nearest};
use crate::plan::keys::{
    ArchiveTable, ImageName, Name, PodEntry, PodOfComponent, PodOfManifest, RecipeFile,
    RelativePath, Sha256,
};
use crate::plan::node::image_name::normal_form;
use crate::plan::node::manifest::{self, Manifest};
use crate::plan::{ImageFrom, Pod, PodImage};
use osbuild_abi::paths;
use osbuild_abi::pods::Runs;

/// The component whose pod installs network plugins.
const CNI_COMPONENT: &str = "cni";

/// A pod's manifest, as the recipe or the component names it.
struct Named<'r> {
    /// The place that names it.
    spot: &'r Spot,
    /// Its path in the project.
    path: String,
}

impl Named<'_> {
    fn of(manifest: &Located<RelativePath>) -> Named<'_> {
        Named { spot: &manifest.spot, path: relative(manifest.spot.file(), manifest) }
    }
}

impl Resolver<'_> {
    pub(super) fn pods(&mut self, recipe: &RecipeFile) -> Vec<Pod> {
        let has_plugins = brings_plugins(recipe);
        let entries = recipe.pods.iter().flat_map(|pods| pods.iter());
        let pod = |(name, entry): (&Name, &Located<PodEntry>)| {
            Some((self.pod(name, entry, has_plugins)?, entry.key.clone()))
        };
        let pods: Vec<(Pod, Spot)> = entries.filter_map(pod).collect();
        for (index, (pod, key)) in pods.iter().enumerate() {
            let clashes = |(other, _): &&(Pod, Spot)| {
                pod.images.iter().any(|image| other.images.iter().any(|it| clash(it, image)))
            };
            if let Some((other, _)) = pods[..index].iter().find(clashes) {
                let names = format!("`{}` and `{}`", other.name, pod.name);
                self.problem(key, format!("{names} use one name for different images"));
            }
        }
        pods.into_iter().map(|(pod, _)| pod).collect()
    }

    /// The image of every pod's sandbox, whose name no image of these pods may have.
    pub(super) fn pause(&mut self, recipe: &RecipeFile, pods: &[Pod]) -> Option<PodImage> {
        let named = recipe.pause.as_ref()?;
        self.note("pause.component", &named.spot);
        let (_, image) =
            self.components.section(Place::Pods, named, &section!(image), &mut self.problems)?;
        let pause = self.built(&image, &named.spot, None)?;
        let clashes = |pod: &&Pod| pod.images.iter().any(|image| clash(image, &pause));
        if let Some(pod) = pods.iter().find(clashes) {
            let message =
                format!("pod `{}` has another image of the name `{}`", pod.name, pause.name);
            self.problem(&named.spot, message);
        }
        Some(pause)
    }

    /// `has_plugins` means that the node has a network plugin without a cluster.
    fn pod(&mut self, name: &str, entry: &Located<PodEntry>, has_plugins: bool) -> Option<Pod> {
        self.note(format!("pods.{name}"), &entry.key);
        match &entry.value {
            PodEntry::Component(pod) => self.pod_of_component(name, pod, &entry.spot, has_plugins),
            PodEntry::Manifest(pod) => {
                let named = Named::of(pod.manifest.as_ref()?);
                let (text, manifest) = self.manifest(&named)?;
                let images = self.archives(pod, &entry.spot, &manifest)?;
                Some(self.checked(name, &named, text, manifest, images, has_plugins))
            }
        }
    }

    fn pod_of_component(
        &mut self,
        name: &str,
        pod: &PodOfComponent,
        spot: &Spot,
        has_plugins: bool,
    ) -> Option<Pod> {
        let named = pod.component.as_ref()?;
        let (_, section) =
            self.components.section(Place::Pods, named, &section!(pod), &mut self.problems)?;
        let (_, image) =
            self.components.section(Place::Pods, named, &section!(image), &mut self.problems)?;
        let image = self.built(&image, spot, pod.version.as_ref())?;
        let named = Named::of(pod.manifest.as_ref().or(section.manifest.as_ref())?);
        let (text, manifest) = self.manifest(&named)?;
        Some(self.checked(name, &named, text, manifest, vec![image], has_plugins))
    }

    /// A manifest, as text and as far as the builder reads it.
    fn manifest(&mut self, Named { spot, path }: &Named<'_>) -> Option<(String, Manifest)> {
        if !self.project.has(path) {
            self.problem(spot, format!("no manifest `{path}`"));
            return None;
        }
        let text = self.project.text(path, &mut self.problems)?;
        match manifest::read(text) {
            Ok(manifest) => Some((text.to_owned(), manifest)),
            Err(causes) => {
                let problem = Problem::new(format!("`{path}` is not the manifest of a static pod"))
                    .at(spot.place());
                self.problems.push(causes.into_iter().fold(problem, Problem::cause));
                None
            }
        }
    }

    /// The images of a user's pod: `image` with its digest if the manifest names one, or `images`
    /// by name.
    fn archives(
        &mut self,
        pod: &PodOfManifest,
        spot: &Spot,
        manifest: &Manifest,
    ) -> Option<Vec<PodImage>> {
        match (&pod.image, &pod.digest, &pod.images) {
            (Some(image), Some(digest), None) => {
                let [name] = &manifest.images[..] else {
                    let problem = Problem::new("`image` is for a manifest that names one image")
                        .at(image.spot.place());
                    let found = in_words(manifest.images.iter().map(String::as_str));
                    let problem = problem.cause(format!("this one names {found}"));
                    self.problems.push(problem.hint("list them in `images`, each by its name"));
                    return None;
                };
                Some(vec![self.archive(name, image, digest)])
            }
            (None, None, Some(images)) => {
                let image = |(name, entry): (&ImageName, &Located<ArchiveTable>)| {
                    let ArchiveTable { archive, digest } = &entry.value;
                    Some(self.archive(name, archive.as_ref()?, digest.as_ref()?))
                };
                Some(images.iter().filter_map(image).collect())
            }
            _ => {
                let message = "a pod with a `manifest` needs `image` and `digest`, or `images`";
                let cause = "a node pulls no image: the images of its static pods are inside it, \
                             pinned by digest";
                self.problems.push(Problem::new(message).at(spot.place()).cause(cause));
                None
            }
        }
    }

    /// An image from an archive, which is a file of the project of any size, or from a layout,
    /// which is a folder.
    fn archive(
        &mut self,
        name: &str,
        named: &Located<RelativePath>,
        digest: &Located<Sha256>,
    ) -> PodImage {
        let path = relative(named.spot.file(), named);
        if !self.project.has(&path) && !self.project.has_folder(&path) {
            let near = nearest(&path, self.project.paths());
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            let problem = Problem::new(format!("no file or folder `{path}` in the project"))
                .at(named.spot.place());
            let problem = problem.cause("the image of a pod is an OCI archive or an OCI layout");
            self.problems.push(Problem { hint, ..problem });
        }
        let from = ImageFrom::Archive { path, digest: digest.to_string() };
        PodImage { name: name.to_owned(), from }
    }

    /// The pod. Its manifest and its entry in the recipe must fit each other.
    fn checked(
        &mut self,
        name: &str,
        named: &Named<'_>,
        text: String,
        manifest: Manifest,
        images: Vec<PodImage>,
        has_plugins: bool,
    ) -> Pod {
        self.check_manifest(name, named, &manifest, &images);
        let Manifest { containers, runs, host_network, .. } = manifest;
        if !host_network && !has_plugins {
            let ready = if runs == Runs::Unawaited { "" } else { ", and READY waits with it" };
            self.warnings.push(format!(
                "pod `{name}` has no `hostNetwork: true` in `{}`: it waits until a cluster gives \
                 the node a network plugin{ready}",
                named.path
            ));
        }
        Pod { name: name.to_owned(), manifest: text, containers, runs, images }
    }

    fn check_manifest(
        &mut self,
        name: &str,
        Named { spot, path }: &Named<'_>,
        manifest: &Manifest,
        images: &[PodImage],
    ) {
        if manifest.name != name {
            let problem =
                Problem::new(format!("pod `{name}` is called `{}` in its manifest", manifest.name))
                    .at(spot.place());
            let cause = format!("`metadata.name` of `{path}` must be its key in `[pods]`");
            self.problems.push(problem.cause(cause));
        }
        for image in &manifest.images {
            self.check_name(image, spot, path);
            if !images.iter().any(|given| given.name == *image) {
                let problem = Problem::new(format!(
                    "`{path}` runs `{image}`, which is not an image of the pod"
                ))
                .at(spot.place());
                let near = nearest(image, images.iter().map(|image| image.name.as_str()));
                let hint = near.map(|near| format!("did you mean `{near}`?"));
                self.problems.push(Problem { hint, ..problem });
            }
        }
        for image in images.iter().filter(|given| !manifest.images.contains(&given.name)) {
            let message =
                format!("`{path}` does not run `{}`, which is an image of the pod", image.name);
            self.problem(spot, message);
        }
    }

    /// The node stores an image under the name in the manifest, and containerd looks for its normal
    /// form: with another name the node would wait for its images, and restart, without end.
    fn check_name(&mut self, image: &str, spot: &Spot, path: &str) {
        let message = format!("`{path}` runs `{image}`, which is not the whole name of an image");
        let problem = Problem::new(message).at(spot.place());
        self.problems.push(match normal_form(image) {
            Ok(normal) if normal == image => return,
            Ok(normal) => problem
                .cause(format!("containerd looks for `{normal}`"))
                .hint(format!("write `{normal}` there")),
            Err(error) => problem.cause(error),
        });
    }
}

/// The node finds an image only by its name.
fn clash(one: &PodImage, other: &PodImage) -> bool {
    one.name == other.name && one.from != other.from
}

/// Whether the recipe has the pod that installs network plugins, and a network configuration for
/// it.
fn brings_plugins(recipe: &RecipeFile) -> bool {
    let mut pods = recipe.pods.iter().flat_map(|pods| pods.values());
    let installs = pods
        .any(|entry| entry.component().is_some_and(|component| *component.value == *CNI_COMPONENT));
    let is_configuration =
        |path: &str| path.strip_prefix(paths::CNI).is_some_and(|rest| rest.starts_with('/'));
    let mut files = recipe.files.iter().flat_map(|files| files.keys());
    installs && files.any(|path| is_configuration(path))
}
